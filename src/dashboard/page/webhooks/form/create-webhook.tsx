import { useState } from 'preact/hooks';
import type { WebhookCreate } from '../../api/types.ts';
import { errorOf, otherError } from '../../data/field-errors.ts';
import { useAction } from '../../data/use-action.ts';
import { Button } from '../../elements/inputs/button.tsx';
import { Dialog } from '../../elements/inputs/dialog.tsx';
import { Field } from '../../elements/inputs/field.tsx';
import { Failure } from '../../elements/states.tsx';
import { goTo, href } from '../../routing/route.ts';
import { useApi } from '../../session/session.ts';
import { useAnnounce } from '../../shell/announce.tsx';
import { EventsField, requireEvents } from './events-field.tsx';
import { OptionFields, optionFields } from './option-fields.tsx';
import { toOptions, toTexts } from './option-texts.ts';
import { newSecret, SecretField } from './secret-field.tsx';

const fields = ['url', 'events', 'secret', ...optionFields];

export function CreateWebhook({ onClose }: { onClose: () => void }) {
  const api = useApi();
  const announce = useAnnounce();
  const [url, setUrl] = useState('');
  const [events, setEvents] = useState<string[]>([]);
  const [secret, setSecret] = useState(newSecret);
  const [options, setOptions] = useState(() => toTexts({}));
  const create = useAction(async () => {
    requireEvents(events);
    const body = { url: url.trim(), events, secret, ...toOptions(options) } as WebhookCreate;
    const { id } = await api.createWebhook(body);
    announce('The webhook has been added');
    onClose();
    goTo(href(['webhooks', id]));
  });
  const other = otherError(create.error, fields);

  return (
    <Dialog
      title="Add a webhook"
      onClose={onClose}
      onSubmit={() => void create.run()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={create.running}>
            Add webhook
          </Button>
        </>
      }
    >
      <Field
        label="URL"
        error={errorOf(create.error, 'url')}
        hint="Where events are sent, by POST. It should answer 2xx within 30 seconds."
      >
        {(field) => (
          <input
            {...field}
            type="url"
            class="mono"
            required
            maxLength={2_048}
            placeholder="https://example.com/webhooks"
            value={url}
            onInput={(event) => setUrl(event.currentTarget.value)}
          />
        )}
      </Field>
      <SecretField label="Secret" secret={secret} error={errorOf(create.error, 'secret')} onSecret={setSecret} />
      <EventsField chosen={events} error={errorOf(create.error, 'events')} onChosen={setEvents} />
      <OptionFields texts={options} error={create.error} onTexts={setOptions} />
      {other && <Failure error={other} />}
    </Dialog>
  );
}
