import type { WebhookSummary } from '../api/types.ts';
import { useQuery } from '../data/use-query.ts';
import { Badge } from '../elements/badge.tsx';
import { Ago } from '../elements/time.tsx';
import { counted, percent } from '../format/number.ts';
import { href } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Sparkline } from '../stats/sparkline.tsx';
import { splitUrl } from './hosts.ts';
import { useSeen } from './use-seen.ts';
import { statusOf } from './words.ts';

/** Milliseconds. */
const healthEvery = 15_000;

function Health({ id }: { id: string }) {
  const api = useApi();
  const query = useQuery((signal) => api.retrieveWebhookStats(id, { signal }), {
    key: `stats ${id}`,
    every: () => healthEvery,
  });
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

function WebhookStatusBadge({ webhook: { id, active } }: { webhook: WebhookSummary }) {
  const api = useApi();
  const query = useQuery((signal) => api.retrieveWebhook(id, { signal }), {
    key: `webhook ${id} ${active}`,
    every: () => healthEvery,
  });
  if (!query.data) return active ? <Badge shape="idle">Active</Badge> : <Badge shape="paused">Paused</Badge>;
  const { shape, words } = statusOf(query.data);
  const { failing_since } = query.data.health;
  return (
    <>
      <Badge shape={shape}>{words}</Badge>
      {words === 'Failing' && failing_since && (
        <span class="muted small">
          {' '}
          since <Ago at={failing_since} />
        </span>
      )}
    </>
  );
}

/** The URL, with what matters most of it set off. */
function Url({ url }: { url: string }) {
  const { scheme, host, rest } = splitUrl(url);
  return (
    <>
      <span class="muted">{scheme}</span>
      {host}
      <span class="muted">{rest}</span>
    </>
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

export function WebhookTable({ webhooks }: { webhooks: readonly WebhookSummary[] }) {
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
