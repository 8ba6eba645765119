import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Webhook } from '../api/types.ts';
import { useQuery } from '../data/use-query.ts';
import { DeliveryList } from '../deliveries/delivery-list.tsx';
import { deliveryStates } from '../deliveries/filters.tsx';
import { Badge, Tag } from '../elements/badge.tsx';
import { Facts } from '../elements/facts.tsx';
import { Tabs } from '../elements/inputs/choice.tsx';
import { Id } from '../elements/inputs/copy.tsx';
import { TimeRange } from '../elements/inputs/time-range.tsx';
import { Loaded } from '../elements/states.tsx';
import { Ago, Time } from '../elements/time.tsx';
import { periodOf } from '../format/period.ts';
import { href, type Route } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { StatsCard } from '../stats/stats-card.tsx';
import { toTexts } from './form/option-texts.ts';
import { HealthNotice } from './health-notice.tsx';
import { splitUrl } from './hosts.ts';
import { Recover } from './recovery/recover.tsx';
import { WebhookActions } from './webhook-actions.tsx';
import { statusOf } from './words.ts';

/** Milliseconds. */
const refreshEvery = 5_000;
const up = { name: 'Webhooks', href: href(['webhooks']) };

/** A fact, unless there is none. */
function present(name: string, text: string, shown: ComponentChildren): [name: string, value: ComponentChildren][] {
  return text === '' ? [] : [[name, shown]];
}

function Lines({ text }: { text: string }) {
  return (
    <code class="mono">
      {text.split('\n').map((line) => (
        <div key={line}>{line}</div>
      ))}
    </code>
  );
}

function WebhookFacts({ webhook }: { webhook: Webhook }) {
  const { last_success_at } = webhook.health;
  const { description, filters, metadata, rate_limit } = toTexts(webhook);
  const names = (webhook.header_names ?? []).join(', ');
  return (
    <Facts
      wide={['Description', 'Events', 'Filters', 'Metadata']}
      facts={[
        ['Webhook id', <Id id={webhook.id} what="webhook id" />],
        ['Created', <Time at={webhook.created_at} />],
        ['Last success', last_success_at ? <Ago at={last_success_at} /> : 'None yet'],
        ['Signatures', <a href={href(['verification'])}>How to verify them</a>],
        ...present('Description', description, description),
        [
          'Events',
          <span class="tags">
            {webhook.events.map((type) => (
              <Tag key={type}>{type}</Tag>
            ))}
          </span>,
        ],
        ...present('Rate limit', rate_limit, `${rate_limit} requests a second`),
        ...present('Filters', filters, <Lines text={filters} />),
        ...present('Headers', names, <code class="mono">{names}</code>),
        ...present('Metadata', metadata, <Lines text={metadata} />),
      ]}
    />
  );
}

function Opened({ webhook, route, onChanged }: { webhook: Webhook; route: Route; onChanged: () => void }) {
  const api = useApi();
  const { id, url } = webhook;
  const stats = useQuery((signal) => api.retrieveWebhookStats(id, { signal }), {
    key: `stats ${id}`,
    every: () => refreshEvery,
  });
  const { shape, words } = statusOf(webhook);
  const { time, since, until } = route.query;
  const period = useMemo(() => periodOf(route.query), [time, since, until]);
  const { scheme, host, rest } = splitUrl(url);
  return (
    <>
      <Heading title={host} up={up} actions={<WebhookActions webhook={webhook} onChanged={onChanged} />}>
        <span class="url">
          <span class="muted">{scheme}</span>
          {host}
          <span class="muted">{rest}</span>
        </span>{' '}
        <Badge shape={shape}>{words}</Badge>
      </Heading>
      <HealthNotice webhook={webhook} />
      <WebhookFacts webhook={webhook} />
      <Loaded query={stats} lines={5}>
        {(data) => <StatsCard stats={data} />}
      </Loaded>
      <Recover webhook={webhook} />
      <h2 class="between">Deliveries</h2>
      <div class="filters">
        <Tabs route={route} name="state" label="State" any="All" options={deliveryStates} />
        <TimeRange route={route} />
      </div>
      <DeliveryList
        route={route}
        filter={{ webhook_id: id, ...period }}
        narrowed={Boolean(route.query.state || time)}
      />
    </>
  );
}

/** One webhook: its health, what was sent to it, and its actions. */
export function WebhookView({ id, route }: { id: string; route: Route }) {
  const api = useApi();
  const query = useQuery((signal) => api.retrieveWebhook(id, { signal }), { key: id, every: () => refreshEvery });
  return (
    <>
      {!query.data && <Heading title="Webhook" up={up} />}
      <Loaded query={query} lines={8}>
        {(webhook) => <Opened webhook={webhook} route={route} onChanged={query.reload} />}
      </Loaded>
    </>
  );
}
