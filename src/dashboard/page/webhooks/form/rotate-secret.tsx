import { useState } from 'preact/hooks';
import type { SecretRotate, Webhook } from '../../api/types.ts';
import { errorOf, otherError } from '../../data/field-errors.ts';
import { useAction } from '../../data/use-action.ts';
import { Button } from '../../elements/inputs/button.tsx';
import { Dialog } from '../../elements/inputs/dialog.tsx';
import { Field } from '../../elements/inputs/field.tsx';
import { Failure } from '../../elements/states.tsx';
import { useApi } from '../../session/session.ts';
import { useAnnounce } from '../../shell/announce.tsx';
import { newSecret, SecretField } from './secret-field.tsx';

const overlaps = [
  [3_600, '1 hour'],
  [86_400, '1 day'],
  [604_800, '7 days'],
  [0, 'None: the old secret has leaked'],
] as const;

interface Props {
  readonly webhook: Webhook;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

export function RotateSecret({ webhook, onClose, onChanged }: Props) {
  const api = useApi();
  const announce = useAnnounce();
  const [secret, setSecret] = useState(newSecret);
  const [overlap, setOverlap] = useState(86_400);
  const [signature, setSignature] = useState<'new' | 'previous'>('new');
  const rotate = useAction(async () => {
    const body: SecretRotate = {
      secret,
      overlap_seconds: overlap,
      ...(overlap > 0 && { service_signature: signature }),
    };
    await api.rotateWebhookSecret(webhook.id, body);
    announce('The secret has been rotated');
    onChanged();
    onClose();
  });
  const other = otherError(rotate.error, ['secret']);

  return (
    <Dialog
      title="Rotate the secret"
      onClose={onClose}
      onSubmit={() => void rotate.run()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={rotate.running}>
            Rotate secret
          </Button>
        </>
      }
    >
      <SecretField label="New secret" secret={secret} error={errorOf(rotate.error, 'secret')} onSecret={setSecret} />
      <Field label="Both secrets are good for" hint="Until then webhook-signature has a signature with each of them.">
        {(field) => (
          <select {...field} value={overlap} onChange={(event) => setOverlap(Number(event.currentTarget.value))}>
            {overlaps.map(([seconds, name]) => (
              <option key={seconds} value={seconds}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
      {overlap > 0 && (
        <Field
          label="Meanwhile x-service-signature is made with"
          hint="It has room for one signature. A receiver that checks only this header needs the previous secret until it knows the new one."
        >
          {(field) => (
            <select
              {...field}
              value={signature}
              onChange={(event) => setSignature(event.currentTarget.value === 'previous' ? 'previous' : 'new')}
            >
              <option value="new">The new secret</option>
              <option value="previous">The previous secret</option>
            </select>
          )}
        </Field>
      )}
      {other && <Failure error={other} />}
    </Dialog>
  );
}
