import { useState } from 'preact/hooks';
import { ApiError } from '../api/error.ts';
import type { DeliveryDetails, EventType, Webhook } from '../api/types.ts';
import { useAction } from '../data/use-action.ts';
import { useQuery } from '../data/use-query.ts';
import { AttemptExchange, AttemptSummary } from '../deliveries/attempt.tsx';
import { liveEvery } from '../deliveries/delivery-list.tsx';
import { isOpen } from '../deliveries/words.ts';
import { SendIcon } from '../elements/icons.tsx';
import { Button } from '../elements/inputs/button.tsx';
import { Dialog } from '../elements/inputs/dialog.tsx';
import { Field } from '../elements/inputs/field.tsx';
import { Failure } from '../elements/states.tsx';
import { useEventTypes } from '../events/use-event-types.ts';
import { href } from '../routing/route.ts';
import { useApi, useSession } from '../session/session.ts';

/** What is sent as a type's data unless it is edited: its example, with the reader's own account. */
function exampleText(types: readonly EventType[], type: string | undefined, userId: string): string {
  const example = types.find((one) => one.type === type)?.example;
  if (!example) return '';
  return JSON.stringify('user_id' in example ? { ...example, user_id: userId } : example, null, 2);
}

/** @throws ApiError for the field where the text is no JSON object */
function checkData(text: string): void {
  try {
    const data: unknown = JSON.parse(text);
    if (typeof data === 'object' && data !== null && !Array.isArray(data)) return;
  } catch {
    // said below
  }
  throw new ApiError('data: must be a JSON object', { status: 0, code: 'invalid_json', param: 'data' });
}

/** The receiver's response; waits for a slow one. */
function Result({ sent }: { sent: DeliveryDetails }) {
  const api = useApi();
  const query = useQuery((signal) => api.retrieveDelivery(sent.id, { signal }), {
    key: sent.id,
    every: (delivery) => (isOpen(delivery) ? liveEvery : null),
  });
  const delivery = query.data ?? sent;
  const attempt = delivery.attempts.at(-1);
  return (
    <div class="result" role="status">
      {attempt ? (
        <>
          <AttemptSummary attempt={attempt} />
          <AttemptExchange attempt={attempt} />
        </>
      ) : (
        <p class="muted">Sent. The receiver has not answered yet.</p>
      )}
      <a href={href(['deliveries', delivery.id])}>See the delivery</a>
    </div>
  );
}

interface Props {
  readonly webhook: Webhook;
  readonly onClose: () => void;
}

/** Sends a sample event as a real delivery and shows the response at once. */
export function TestEvent({ webhook, onClose }: Props) {
  const api = useApi();
  const [type, setType] = useState(webhook.events[0]);
  const { user_id } = useSession();
  const types = useEventTypes().data?.data ?? [];
  const example = exampleText(types, type, user_id);
  const [edited, setEdited] = useState<string>();
  const [sent, setSent] = useState<DeliveryDetails>();
  const send = useAction(async () => {
    setSent(undefined);
    if (!type) return;
    if (edited !== undefined) checkData(edited);
    setSent(await api.testWebhook(webhook.id, type, edited));
  });
  const dataError = send.error?.param?.startsWith('data') ? send.error.message : undefined;
  return (
    <Dialog
      title="Send test event"
      onClose={onClose}
      onSubmit={() => void send.run()}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" type="submit" busy={send.running}>
            <SendIcon />
            {send.running ? 'Sending…' : sent ? 'Send another' : 'Send test event'}
          </Button>
        </>
      }
    >
      <Field
        label="Type"
        hint="An event of it is signed and sent once, with x-service-test: true. A receiver has 30 seconds to answer."
      >
        {(field) => (
          <select
            {...field}
            value={type}
            onChange={({ currentTarget }) => {
              setType(webhook.events.find((one) => one === currentTarget.value));
              setEdited(undefined);
            }}
          >
            {webhook.events.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field
        label="Data"
        error={dataError}
        hint={<a href={href(['event-types'])}>What the fields of each type mean</a>}
      >
        {(field) => (
          <textarea
            {...field}
            class="mono"
            rows={6}
            spellcheck={false}
            value={edited ?? example}
            onInput={({ currentTarget }) => setEdited(currentTarget.value)}
          />
        )}
      </Field>
      {send.error && !dataError && <Failure error={send.error} />}
      {sent && <Result key={sent.id} sent={sent} />}
    </Dialog>
  );
}
