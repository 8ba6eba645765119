import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useRead } from '../data/query.ts';
import { href, type Route } from '../data/route.ts';
import type { WebhookSummary } from '../data/types.ts';
import { Badge, StatusBadge } from '../elements/badge.tsx';
import { Button } from '../elements/button.tsx';
import { counted, percent } from '../elements/format.ts';
import { PlusIcon } from '../elements/icons.tsx';
import { Empty } from '../elements/states.tsx';
import { Listed, Pager } from '../elements/table.tsx';
import { Ago } from '../elements/time.tsx';
import { Card, Heading } from '../elements/view.tsx';
import { Sparkline } from './stats.tsx';
import { Url, useWebhooks, webhookStatus } from './webhook.tsx';
import { CreateWebhook } from './webhook-form.tsx';

/** The account's webhooks, with their health at a glance. */
export function WebhooksView({ route }: { route: Route }) {
  const query = useWebhooks(route.query.after);
  const [adding, setAdding] = useState(false);
  const add = (
    <Button kind="primary" onClick={() => setAdding(true)}>
      <PlusIcon />
      Add webhook
    </Button>
  );
  return (
    <>
      <Heading title="Webhooks" actions={add} />
      <Card label="Webhooks">
        <Listed
          query={query}
          empty={
            <Empty
              title="No webhooks yet"
              text="A webhook is a URL of yours that gets events about this account at once: payments, credits, keys and limits. What it misses is sent again, up to six times."
            >
              <Button onClick={() => setAdding(true)}>Add the first one</Button>
            </Empty>
          }
        >
          {({ data, has_more }) => (
            <>
              <WebhookTable webhooks={data} />
              <Pager route={route} next={has_more ? data.at(-1)?.id : undefined} />
            </>
          )}
        </Listed>
      </Card>
      {adding && (
        <CreateWebhook
          onClose={() => {
            setAdding(false);
            query.reload();
          }}
        />
      )}
    </>
  );
}

function WebhookTable({ webhooks }: { webhooks: readonly WebhookSummary[] }) {
  return (
    <table class="list webhooks">
      <caption class="visually-hidden">Webhooks, oldest first</caption>
      <thead>
        <tr>
          <th scope="col">State</th>
          <th scope="col">Webhook</th>
          <th scope="col">Subscribed to</th>
          <th scope="col">Last 7 days</th>
        </tr>
      </thead>
      <tbody>
        {webhooks.map((webhook) => (
          <Row key={webhook.id} webhook={webhook} />
        ))}
      </tbody>
    </table>
  );
}

/** A row fetches its health once it becomes visible. */
function Row({ webhook }: { webhook: WebhookSummary }) {
  const [row, seen] = useSeen<HTMLTableRowElement>();
  const { id, url, description } = webhook;
  return (
    <tr ref={row}>
      <td>{seen && <WebhookStatusBadge webhook={webhook} />}</td>
      <td class="cell-main">
        <a class={description ? 'row-link' : 'row-link url'} href={href(['webhooks', id])}>
          {description || <Url url={url} />}
        </a>
        {description && (
          <span class="under url">
            <Url url={url} />
          </span>
        )}
        <code class="under">{id}</code>
      </td>
      <td>
        <span title={webhook.events.join(', ')}>{counted(webhook.events.length, 'event type')}</span>
      </td>
      <td class="cell-wide">{seen && <Health id={id} />}</td>
    </tr>
  );
}

/** Milliseconds. */
const healthEvery = 15_000;

function WebhookStatusBadge({ webhook: { id, active } }: { webhook: WebhookSummary }) {
  const query = useRead('/v1/webhooks/{id}', { path: { id } }, healthEvery);
  if (!query.data) return active ? <Badge shape="idle">Active</Badge> : <Badge shape="paused">Paused</Badge>;
  const status = webhookStatus(query.data);
  const { failing_since } = query.data.health;
  return (
    <>
      <StatusBadge status={status} />
      {status.words === 'Failing' && failing_since && (
        <span class="muted small">
          {' '}
          since <Ago at={failing_since} />
        </span>
      )}
    </>
  );
}

function Health({ id }: { id: string }) {
  const query = useRead('/v1/webhooks/{id}/stats', { path: { id } }, healthEvery);
  if (!query.data) return <span class="muted">{query.error ? 'Not known' : '…'}</span>;
  const { success_rate, hours, attempts } = query.data;
  if (success_rate === null) return <span class="muted">Nothing sent in 7 days</span>;
  return (
    <span class="glance">
      <Sparkline hours={hours} />
      <span class="numbers">
        {percent(success_rate)} <span class="muted">of {counted(attempts, 'attempt')}</span>
      </span>
    </span>
  );
}

/** Whether an element has ever been in sight, or nearly. */
function useSeen<E extends Element>(): [ref: RefObject<E | null>, seen: boolean] {
  const ref = useRef<E>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new IntersectionObserver(
      (entries) => {
        if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
        setSeen(true);
        observer.disconnect();
      },
      { rootMargin: '200px' },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, seen];
}
