import { useState } from 'preact/hooks';
import { type Api, dataOf } from '../data/api.ts';
import { ApiError } from '../data/error.ts';
import { useAction } from '../data/query.ts';
import { href } from '../data/route.ts';
import { useApi, useSession } from '../data/session.ts';
import type { DeliveryDetails, WebhookSummary } from '../data/types.ts';
import { AttemptExchange, AttemptSummary, useDelivery } from '../deliveries/delivery.tsx';
import { Button } from '../elements/button.tsx';
import { Dialog, Field, SelectField } from '../elements/form.tsx';
import { SendIcon } from '../elements/icons.tsx';
import { Failure } from '../elements/states.tsx';
import { useEventTypes } from '../events/event-types.tsx';

/** Sends a sample event as a real delivery and shows the response at once. */
export function TestEvent({ webhook, onClose }: { webhook: WebhookSummary; onClose: () => void }) {
  const api = useApi();
  const [type, setType] = useState(webhook.events[0]);
  const example = useExample(type);
  const [edited, setEdited] = useState<string>();
  const [sent, setSent] = useState<DeliveryDetails>();
  const send = useAction(async () => {
    setSent(undefined);
    if (type) setSent(await sendTest(api, webhook.id, type, edited));
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
      <SelectField
        label="Type"
        hint="An event of it is signed and sent once, with x-service-test: true. A receiver has 30 seconds to answer."
        value={type}
        options={webhook.events.map((type) => [type, type] as const)}
        onChosen={(chosen) => {
          setType(chosen);
          setEdited(undefined);
        }}
      />
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

/** What is sent as a type's data unless it is edited: its example, with the reader's own account. */
function useExample(type: string | undefined): string {
  const { user_id } = useSession();
  const example = useEventTypes().data?.data.find((one) => one.type === type)?.example;
  if (!example) return '';
  return JSON.stringify('user_id' in example ? { ...example, user_id } : example, null, 2);
}

/** @param data the text of a JSON object, sent as it is: parsed here, its numbers could change. @default the example of the type */
function sendTest(api: Api, id: string, type: string, data: string | undefined): Promise<DeliveryDetails> {
  if (data !== undefined) checkData(data);
  const bodySerializer = () => `{"type":${JSON.stringify(type)}${data === undefined ? '' : `,"data":${data}`}}`;
  return dataOf(api.POST('/v1/webhooks/{id}/test', { params: { path: { id } }, body: { type }, bodySerializer }));
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
  const delivery = useDelivery(sent.id).data ?? sent;
  const attempt = delivery.attempts.at(-1);
  return (
    <div class="stack" role="status">
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
