import { Button } from '../../elements/inputs/button.tsx';
import { CopyButton } from '../../elements/inputs/copy.tsx';
import { Field } from '../../elements/inputs/field.tsx';

interface Props {
  readonly label: string;
  readonly secret: string;
  readonly error: string | undefined;
  readonly onSecret: (secret: string) => void;
}

/** A secret that cannot be guessed, in the form of Standard Webhooks: `whsec_` and 32 random bytes in base64. */
export function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}

export function SecretField({ label, secret, error, onSecret }: Props) {
  return (
    <Field
      label={label}
      error={error}
      hint="Your receiver checks signatures with it. Copy it now: it is never shown again."
    >
      {(field) => (
        <div class="with-button">
          <input
            {...field}
            class="mono"
            autocomplete="off"
            spellcheck={false}
            required
            minLength={8}
            maxLength={256}
            value={secret}
            onInput={(event) => onSecret(event.currentTarget.value)}
          />
          <CopyButton text={secret} what="secret" />
          <Button onClick={() => onSecret(newSecret())}>Generate</Button>
        </div>
      )}
    </Field>
  );
}
