import type { ComponentChildren, ComponentProps } from 'preact';
import { useState } from 'preact/hooks';
import { keyStatus } from '../account/editable-keys.tsx';
import { CreateKey } from '../account/keys-view.tsx';
import { type Api, gatewaySettings, read } from '../data/api.ts';
import { refreshEvery, useQuery } from '../data/query.ts';
import { useSession } from '../data/session.ts';
import type { WebhookSummary } from '../data/types.ts';
import { StateIcon } from '../elements/badge.tsx';
import { Button, Id } from '../elements/button.tsx';
import { useDialog } from '../elements/use-dialog.ts';
import { Code } from '../elements/view.tsx';
import { TestEvent } from '../webhooks/test-event.tsx';
import { CreateWebhook } from '../webhooks/webhook-form.tsx';

/** What has been done of the first steps; `undefined` for a step that this session may not make, or that could not be asked for. */
interface Progress {
  /** Whether all could be asked for. */
  readonly isWhole: boolean;
  readonly hasKey: boolean | undefined;
  readonly hasCalled: boolean | undefined;
  readonly webhooks: readonly WebhookSummary[] | undefined;
  readonly hasDelivery: boolean | undefined;
}

async function readProgress(api: Api, scopes: readonly string[], signal: AbortSignal): Promise<Progress> {
  const may = (scope: string) => scopes.includes(scope);
  const unread = () => null;
  const reads = await Promise.all([
    may('keys') ? read(api, '/v1/api_keys', { query: { limit: 100 } }, signal).catch(unread) : undefined,
    may('models') && gatewaySettings().hasUsage
      ? read(api, '/v1/usage', { query: { group_by: 'model' } }, signal).catch(unread)
      : undefined,
    may('webhooks') ? read(api, '/v1/webhooks', { query: { limit: 100 } }, signal).catch(unread) : undefined,
    may('webhooks') ? read(api, '/v1/deliveries', { query: { limit: 1 } }, signal).catch(unread) : undefined,
  ]);
  const [keys, usage, webhooks, deliveries] = reads;
  return {
    isWhole: !reads.includes(null),
    hasKey: keys?.data.some((key) => keyStatus(key).shape === 'good' && key.scopes.includes('models')),
    hasCalled: usage?.data.some(({ requests }) => requests > 0),
    webhooks: webhooks?.data,
    hasDelivery: deliveries ? deliveries.data.length > 0 : undefined,
  };
}

const isToDo = ({ hasKey, hasCalled, webhooks, hasDelivery }: Progress) =>
  [hasKey, hasCalled, webhooks && webhooks.length > 0, hasDelivery].includes(false);

const isDone = (progress: Progress) => progress.isWhole && !isToDo(progress);

const closedName = 'gateway-get-started';

/** What to do first in an account that has nothing yet, until all of it is done. */
export function GetStarted() {
  const { user_id, scopes } = useSession();
  // what an account has done long ago is not listed for ever
  const doneName = ['gateway-get-started-done', user_id, ...scopes].join(' ');
  const [wasDone] = useState(() => localStorage.getItem(doneName) !== null);
  return wasDone ? null : <FirstSteps onDone={() => localStorage.setItem(doneName, 'done')} />;
}

function FirstSteps({ onDone }: { onDone: () => void }) {
  const { api, scopes } = useSession();
  const readSteps = async (signal: AbortSignal) => {
    const progress = await readProgress(api, scopes, signal);
    if (isDone(progress)) onDone();
    return progress;
  };
  const { data, reload } = useQuery(readSteps, 'progress', (progress) => (isDone(progress) ? null : refreshEvery));
  const [keyDialog, createKey] = useDialog((close) => <CreateKey onClose={close} />, reload);
  const [webhookDialog, addWebhook] = useDialog((close) => <CreateWebhook onClose={close} />, reload);
  const [testDialog, sendTest] = useDialog<WebhookSummary>(
    (close, webhook) => <TestEvent webhook={webhook} onClose={close} />,
    reload,
  );
  return (
    <>
      {data && isToDo(data) && <Steps progress={data} {...{ createKey, addWebhook, sendTest }} />}
      {keyDialog}
      {webhookDialog}
      {testDialog}
    </>
  );
}

interface StepsProps {
  readonly progress: Progress;
  readonly createKey: () => void;
  readonly addWebhook: () => void;
  readonly sendTest: (webhook: WebhookSummary) => void;
}

interface Step {
  /** `undefined` where this session may not make it. */
  readonly done: boolean | undefined;
  readonly title: string;
  readonly text: ComponentChildren;
  /** Its button, which is the primary one in the next step to make. */
  readonly button?: Pick<ComponentProps<typeof Button>, 'children' | 'onClick' | 'disabledReason'>;
  readonly more?: ComponentChildren;
}

function stepsOf({ progress, createKey, addWebhook, sendTest }: StepsProps): readonly Step[] {
  const { hasKey, hasCalled, webhooks, hasDelivery } = progress;
  const target = webhooks?.find(({ active }) => active);
  const steps: readonly Step[] = [
    {
      done: hasKey,
      title: 'Create an API key',
      text: 'Your programs call models with it. You see it once: copy it to a safe place.',
      button: { children: 'Create key', onClick: createKey },
    },
    {
      done: hasCalled,
      title: 'Send a chat',
      text: 'Put your key into the first line and run this in a terminal. OpenAI’s clients take the base URL and the key.',
      more: <FirstChat />,
    },
    {
      done: webhooks && webhooks.length > 0,
      title: 'Add a webhook',
      text: 'A URL of yours gets events about this account: payments, credits, keys and limits.',
      button: { children: 'Add webhook', onClick: addWebhook },
    },
    {
      done: hasDelivery,
      title: 'Send a test event',
      text: 'Your webhook gets a sample event, and you see what it answers.',
      button: {
        children: 'Send test event',
        onClick: () => target && sendTest(target),
        disabledReason:
          !target && (webhooks?.length ? 'Your webhooks are paused: resume one first' : 'Add a webhook first'),
      },
    },
  ];
  return steps.filter(({ done }) => done !== undefined);
}

function Steps(props: StepsProps) {
  const [isOpen, setOpen] = useState(() => localStorage.getItem(closedName) === null);
  const steps = stepsOf(props);
  const next = steps.find(({ done }) => !done);
  return (
    <section class="card" aria-labelledby="get-started">
      <details
        open={isOpen}
        onToggle={({ currentTarget: { open } }) => {
          if (open) localStorage.removeItem(closedName);
          else localStorage.setItem(closedName, 'closed');
          setOpen(open);
        }}
      >
        <summary class="card-head wrap spread">
          <h2 id="get-started">Get started</h2>
          <span class="line">
            <span class="muted small">
              {steps.filter(({ done }) => done).length} of {steps.length} done
            </span>
            {isOpen ? 'Hide' : 'Show'}
          </span>
        </summary>
        <ol class="steps">
          {steps.map((step) => (
            <StepItem key={step.title} step={step} kind={step === next ? 'primary' : 'plain'} />
          ))}
        </ol>
      </details>
    </section>
  );
}

function StepItem({ step, kind }: { step: Step; kind: 'primary' | 'plain' }) {
  const { done, title, text, button, more } = step;
  return (
    <li class={done ? 'stack step step-done' : 'stack step'}>
      <div class="wrap spread">
        <h3 class="line">
          <StateIcon shape={done ? 'good' : 'idle'} />
          <span class="visually-hidden">{done ? 'Done: ' : 'To do: '}</span>
          {title}
        </h3>
        {!done && button && <Button kind={kind} {...button} />}
      </div>
      {!done && <p class="muted">{text}</p>}
      {!done && more}
    </li>
  );
}

/** Models that, by their names, answer no chat. */
const otherKinds = /audio|dall|embed|image|moderation|realtime|rerank|sora|transcribe|tts|whisper/i;

/** Quotes a text for a shell. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

function FirstChat() {
  const { api } = useSession();
  const models = useQuery((signal) => read(api, '/v1/models', {}, signal).catch(() => undefined), 'models');
  const model = models.data?.data.find(({ id }) => !otherKinds.test(id))?.id ?? 'your-model';
  const { baseUrl } = gatewaySettings();
  const command = [
    "API_KEY='your key'",
    `curl ${quoted(`${baseUrl}/chat/completions`)} \\`,
    '  -H "authorization: Bearer $API_KEY" \\',
    "  -H 'content-type: application/json' \\",
    `  -d ${quoted(JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }))}`,
  ];
  return (
    <>
      <p class="wrap">
        Base URL <Id id={baseUrl} what="base URL" />
      </p>
      <Code title="Command" text={command.join('\n')} />
    </>
  );
}
