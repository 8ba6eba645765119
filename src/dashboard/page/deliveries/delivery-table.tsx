import type { Delivery } from '../api/types.ts';
import { Tag } from '../elements/badge.tsx';
import { Ago, Countdown } from '../elements/time.tsx';
import { href } from '../routing/route.ts';
import { DeliveryBadge } from './state-badge.tsx';
import { outcomeWords } from './words.ts';

interface Props {
  readonly caption: string;
  readonly deliveries: readonly Delivery[];
  /** The host of each webhook's URL, by id; absent where all are of one. */
  readonly hosts?: ReadonlyMap<string, string> | undefined;
}

function LastResult({ delivery }: { delivery: Delivery }) {
  const { last_status: status, last_code: code, attempts_made } = delivery;
  if (status === null && code === null) return <span class="muted">{attempts_made === 0 ? 'None yet' : '—'}</span>;
  return <>{outcomeWords({ status, code })}</>;
}

function Next({ delivery: { state, in_flight, next_attempt_at } }: { delivery: Delivery }) {
  if (in_flight) return <>now</>;
  if (state !== 'pending' || next_attempt_at === null) return <span class="muted">—</span>;
  return <Countdown to={next_attempt_at} />;
}

function Row({ delivery, hosts }: { delivery: Delivery; hosts: Props['hosts'] }) {
  return (
    <tr>
      <td>
        <DeliveryBadge delivery={delivery} />
      </td>
      <td class="cell-main">
        <a class="row-link" href={href(['deliveries', delivery.id])}>
          {delivery.type}
        </a>
        {delivery.test && <Tag>test</Tag>}
        <code class="under">{delivery.id}</code>
      </td>
      {hosts && (
        <td class="cell-wide cut" title={hosts.get(delivery.webhook_id)}>
          {hosts.get(delivery.webhook_id) ?? <code>{delivery.webhook_id}</code>}
        </td>
      )}
      <td>
        <span class="cell-name">Result </span>
        <LastResult delivery={delivery} />
      </td>
      <td class="numbers">
        <span class="cell-name">Attempts </span>
        {delivery.attempts_made}
        <span class="muted"> of {delivery.max_attempts}</span>
      </td>
      <td class={delivery.state === 'pending' ? 'numbers' : 'numbers cell-none'}>
        <span class="cell-name">Next </span>
        <Next delivery={delivery} />
      </td>
      <td class="numbers cell-end">
        <Ago at={delivery.created_at} />
      </td>
    </tr>
  );
}

export function DeliveryTable({ caption, deliveries, hosts }: Props) {
  return (
    <table class="list deliveries">
      <caption class="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          <th scope="col" class="col-state">
            State
          </th>
          <th scope="col">Event</th>
          {hosts && (
            <th scope="col" class="col-webhook">
              Webhook
            </th>
          )}
          <th scope="col" class="col-result">
            Last result
          </th>
          <th scope="col" class="col-attempts">
            Attempts
          </th>
          <th scope="col" class="col-next">
            Next attempt
          </th>
          <th scope="col" class="col-created cell-end">
            Created
          </th>
        </tr>
      </thead>
      <tbody>
        {deliveries.map((delivery) => (
          <Row key={delivery.id} delivery={delivery} hosts={hosts} />
        ))}
      </tbody>
    </table>
  );
}
