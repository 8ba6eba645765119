import { useState } from 'preact/hooks';
import { useAction } from '../data/use-action.ts';
import { Logo } from '../elements/icons.tsx';
import { Button } from '../elements/inputs/button.tsx';
import { Field } from '../elements/inputs/field.tsx';

interface Props {
  readonly hostSessions: boolean;
  readonly message?: string | undefined;
  readonly onKey: (key: string) => Promise<void>;
}

export function SignInView({ hostSessions, message, onKey }: Props) {
  const [key, setKey] = useState('');
  const signIn = useAction(async () => onKey(key.trim()));
  const refusal =
    signIn.error?.status === 401 ? 'This key is not known, has expired or has been revoked.' : signIn.error?.message;

  return (
    <main class="sign-in">
      <form
        class="card sign-in-card"
        onSubmit={(event) => {
          event.preventDefault();
          void signIn.run();
        }}
      >
        <Logo />
        <h1>Sign in</h1>
        <p class="muted">
          {hostSessions
            ? 'You are not signed in here. Sign in as usual and reload this page, or use an API key.'
            : 'See what your webhooks received, and send again what they missed.'}
        </p>
        {message && <p class="note">{message}</p>}
        <Field label="API key" error={refusal} hint="It stays in this tab, and is forgotten when you close it.">
          {(field) => (
            <input
              {...field}
              type="password"
              class="mono"
              autocomplete="off"
              spellcheck={false}
              required
              placeholder="emg_…"
              value={key}
              onInput={(event) => setKey(event.currentTarget.value)}
            />
          )}
        </Field>
        <Button kind="primary" type="submit" busy={signIn.running} wide>
          Sign in
        </Button>
      </form>
    </main>
  );
}
