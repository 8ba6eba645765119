import { useState } from 'preact/hooks';
import type { Webhook } from '../api/types.ts';
import { useAction } from '../data/use-action.ts';
import { EditIcon, KeyIcon, PauseIcon, PlayIcon, SendIcon, TrashIcon } from '../elements/icons.tsx';
import { Button } from '../elements/inputs/button.tsx';
import { Failure } from '../elements/states.tsx';
import { useApi } from '../session/session.ts';
import { useAnnounce } from '../shell/announce.tsx';
import { DeleteWebhook } from './delete-webhook.tsx';
import { EditWebhook } from './form/edit-webhook.tsx';
import { RotateSecret } from './form/rotate-secret.tsx';
import { TestEvent } from './test-event.tsx';

type Open = 'test' | 'edit' | 'rotate' | 'delete';

interface Props {
  readonly webhook: Webhook;
  readonly onChanged: () => void;
}

/** Everything that can be done to a webhook. */
export function WebhookActions({ webhook, onChanged }: Props) {
  const api = useApi();
  const announce = useAnnounce();
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const toggle = useAction(async () => {
    await api.updateWebhook(webhook.id, { active: !webhook.active });
    announce(webhook.active ? 'The webhook is paused' : 'The webhook is active again');
    onChanged();
  });
  return (
    <>
      <Button
        kind="primary"
        disabledReason={!webhook.active && 'The webhook is paused: resume it first'}
        onClick={() => setOpen('test')}
      >
        <SendIcon />
        Send test event
      </Button>
      <Button busy={toggle.running} onClick={() => void toggle.run()}>
        {webhook.active ? <PauseIcon /> : <PlayIcon />}
        {webhook.active ? 'Pause' : 'Resume'}
      </Button>
      <Button onClick={() => setOpen('edit')}>
        <EditIcon />
        Edit
      </Button>
      <Button onClick={() => setOpen('rotate')}>
        <KeyIcon />
        Rotate secret
      </Button>
      <Button kind="danger" onClick={() => setOpen('delete')}>
        <TrashIcon />
        Delete
      </Button>
      {toggle.error && <Failure error={toggle.error} />}
      {open === 'test' && (
        <TestEvent
          webhook={webhook}
          onClose={() => {
            close();
            onChanged();
          }}
        />
      )}
      {open === 'edit' && <EditWebhook webhook={webhook} onClose={close} onChanged={onChanged} />}
      {open === 'rotate' && <RotateSecret webhook={webhook} onClose={close} onChanged={onChanged} />}
      {open === 'delete' && <DeleteWebhook webhook={webhook} onClose={close} />}
    </>
  );
}
