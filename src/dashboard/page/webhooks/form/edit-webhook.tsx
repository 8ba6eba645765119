import { useState } from 'preact/hooks';
import type { Webhook, WebhookUpdate } from '../../api/types.ts';
import { errorOf, otherError } from '../../data/field-errors.ts';
import { useAction } from '../../data/use-action.ts';
import { Button } from '../../elements/inputs/button.tsx';
import { Dialog } from '../../elements/inputs/dialog.tsx';
import { Failure } from '../../elements/states.tsx';
import { useApi } from '../../session/session.ts';
import { useAnnounce } from '../../shell/announce.tsx';
import { EventsField, requireEvents } from './events-field.tsx';
import { OptionFields, optionFields } from './option-fields.tsx';
import { toOptionChanges, toTexts } from './option-texts.ts';

interface Props {
  readonly webhook: Webhook;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

export function EditWebhook({ webhook, onClose, onChanged }: Props) {
  const api = useApi();
  const announce = useAnnounce();
  const [events, setEvents] = useState<string[]>([...webhook.events]);
  const [active, setActive] = useState(webhook.active);
  const [options, setOptions] = useState(() => toTexts(webhook));
  const save = useAction(async () => {
    requireEvents(events);
    await api.updateWebhook(webhook.id, { events, active, ...toOptionChanges(options, webhook) } as WebhookUpdate);
    announce('The webhook has been changed');
    onChanged();
    onClose();
  });
  const other = otherError(save.error, ['events', ...optionFields]);

  return (
    <Dialog
      title="Edit the webhook"
      onClose={onClose}
      onSubmit={() => void save.run()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={save.running}>
            Save
          </Button>
        </>
      }
    >
      <p class="muted">
        Its URL stays: <code class="url">{webhook.url}</code>. For another one, add a webhook.
      </p>
      <label class="check">
        <input type="checkbox" checked={active} onChange={(event) => setActive(event.currentTarget.checked)} />
        <span>
          <b>Active</b>
          <span class="muted small">While it is not, nothing is sent; what it misses can be recovered later.</span>
        </span>
      </label>
      <EventsField chosen={events} error={errorOf(save.error, 'events')} onChosen={setEvents} />
      <OptionFields texts={options} error={save.error} onTexts={setOptions} />
      {other && <Failure error={other} />}
    </Dialog>
  );
}
