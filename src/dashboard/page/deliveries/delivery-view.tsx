import type { DeliveryDetails } from '../api/types.ts';
import { type Query, useQuery } from '../data/use-query.ts';
import { Tag } from '../elements/badge.tsx';
import { Code } from '../elements/code.tsx';
import { Facts } from '../elements/facts.tsx';
import { Id } from '../elements/inputs/copy.tsx';
import { Loaded } from '../elements/states.tsx';
import { Time } from '../elements/time.tsx';
import { href } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { liveEvery } from './delivery-list.tsx';
import { DeliverySummary } from './delivery-summary.tsx';
import { useResend } from './resend.tsx';
import { DeliveryBadge } from './state-badge.tsx';
import { Timeline } from './timeline-list.tsx';
import { isOpen, manualWords } from './words.ts';

const up = { name: 'Deliveries', href: href(['deliveries']) };

function DeliveryFacts({ delivery }: { delivery: DeliveryDetails }) {
  const { id, event_id, webhook_id, url, created_at, ended_at, attempts_made, max_attempts } = delivery;
  return (
    <Facts
      facts={[
        ['Webhook', <a href={href(['webhooks', webhook_id])}>{url ?? `${webhook_id} (deleted)`}</a>],
        [
          'Event',
          <a href={href(['events', event_id])}>
            <code>{event_id}</code>
          </a>,
        ],
        ['Delivery', <Id id={id} what="delivery id" />],
        ['Attempts', [`${attempts_made} of ${max_attempts}`, manualWords(delivery)].filter(Boolean).join(', ')],
        ['Created', <Time at={created_at} />],
        ['Ended', ended_at ? <Time at={ended_at} /> : 'Not yet'],
      ]}
    />
  );
}

function Opened({ delivery, query }: { delivery: DeliveryDetails; query: Query<DeliveryDetails> }) {
  const resend = useResend({ delivery, onSent: query.set });
  return (
    <>
      <Heading title={delivery.type} up={up} actions={resend.button}>
        {delivery.type} <DeliveryBadge delivery={delivery} />
        {delivery.test && <Tag>test</Tag>}
      </Heading>
      {resend.failure}
      <div class={`delivery-summary delivery-summary-${delivery.state}`} aria-live="polite">
        <DeliverySummary delivery={delivery} />
      </div>
      <DeliveryFacts delivery={delivery} />
      <div class="columns">
        <section class="card" aria-labelledby="attempts">
          <div class="card-head">
            <h2 id="attempts">Attempts</h2>
          </div>
          <Timeline delivery={delivery} />
        </section>
        <div class="sticky">
          <Code title="Body" text={delivery.body} />
        </div>
      </div>
    </>
  );
}

/** One delivery: what was tried, what comes next, and why. */
export function DeliveryView({ id }: { id: string }) {
  const api = useApi();
  const query = useQuery((signal) => api.retrieveDelivery(id, { signal }), {
    key: id,
    every: (delivery) => (isOpen(delivery) ? liveEvery : null),
  });
  return (
    <>
      {!query.data && <Heading title="Delivery" up={up} />}
      <Loaded query={query} lines={8}>
        {(delivery) => <Opened delivery={delivery} query={query} />}
      </Loaded>
    </>
  );
}
