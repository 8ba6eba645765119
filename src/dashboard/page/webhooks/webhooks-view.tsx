import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useRead } from '../data/query.ts';
import { href, type Route } from '../data/route.ts';
import type { WebhookSummary } from '../data/types.ts';
import { Badge, StatusBadge } from '../elements/badge.tsx';
import { Button } from '../elements/button.tsx';
import { counted, percent } from '../elements/format.ts';
import { PlusIcon } from '../elements/icons.tsx';
import { Empty } from '../elements/states.tsx';
import { firstAndNext, type List, Listed } from '../elements/table.tsx';
import { Ago } from '../elements/time.tsx';
import { useDialog } from '../elements/use-dialog.ts';
import { Card, Heading } from '../elements/view.tsx';
import { Sparkline } from './stats.tsx';
import { Url, useWebhooks, webhookStatus } from './webhook.tsx';
import { CreateWebhook } from './webhook-form.tsx';

/** The account's webhooks, with their health at a glance. */
export function WebhooksView({ route }: { route: Route }) {
  const query = useWebhooks(route.query.after);
  const [dialog, add] = useDialog((close) => <CreateWebhook onClose={close} />, query.reload);
  const empty = (
    <Empty
      title="No webhooks yet"
      text="A webhook is a URL of yours that gets events about this account at once: payments, credits, keys and limits. What it misses is sent again, up to six times."
    >
      <Button onClick={add}>Add the first one</Button>
    </Empty>
  );
  return (
    <>
      <Heading
        title="Webhooks"
        actions={
          <Button kind="primary" onClick={add}>
            <PlusIcon />
            Add webhook
          </Button>
        }
      />
      <Card label="Webhooks">
        <Listed query={query} list={list} empty={empty} pages={{ route, names: firstAndNext }} />
      </Card>
      {dialog}
    </>
  );
}

const list: List<WebhookSummary> = {
  kind: 'webhooks',
  caption: 'Webhooks, oldest first',
  keyOf: ({ id }) => id,
  columns: [
    {
      head: 'State',
      cell: (webhook) => (
        <WhenSeen>
          <WebhookStatusBadge key={String(webhook.active)} webhook={webhook} />
        </WhenSeen>
      ),
    },
    { head: 'Webhook', width: '40%', class: 'cell-main', cell: WebhookName },
    {
      head: 'Subscribed to',
      cell: ({ events }) => <span title={events.join(', ')}>{counted(events.length, 'event type')}</span>,
    },
    {
      head: 'Last 7 days',
      class: 'cell-wide',
      cell: ({ id }) => (
        <WhenSeen>
          <Health id={id} />
        </WhenSeen>
      ),
    },
  ],
};

/** The name of a webhook in a list, which opens it. */
export function WebhookName({ id, url, description }: WebhookSummary) {
  return (
    <>
      <a class={description ? 'row-link' : 'row-link url'} href={href(['webhooks', id])}>
        {description || <Url url={url} />}
      </a>
      {description && (
        <span class="under url">
          <Url url={url} />
        </span>
      )}
      <code class="under">{id}</code>
    </>
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
    <span class="line glance">
      <Sparkline hours={hours} />
      <span class="numbers">
        {percent(success_rate)} <span class="muted">of {counted(attempts, 'attempt')}</span>
      </span>
    </span>
  );
}

/** What fetches something of its own: begun once its place is in sight, or nearly. */
function WhenSeen({ children }: { children: ComponentChildren }) {
  const place = useRef<HTMLSpanElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (!place.current) return;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) setSeen(true);
      },
      { rootMargin: '200px' },
    );
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [seen]);
  return seen ? children : <span ref={place} />;
}
