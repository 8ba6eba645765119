import type { Delivery } from '../api/types.ts';
import { RowName } from '../elements/row-name.tsx';
import { type Column, Table } from '../elements/table.tsx';
import { Ago, Countdown } from '../elements/time.tsx';
import type { Selection } from './selection.tsx';
import { DeliveryBadge } from './state-badge.tsx';
import { outcomeWords } from './words.ts';

interface Props {
  readonly caption: string;
  readonly deliveries: readonly Delivery[];
  /** The host of each webhook's URL, by id; absent where all are of one. */
  readonly hosts?: ReadonlyMap<string, string> | undefined;
  /** Absent where rows cannot be chosen. */
  readonly selection?: Selection | undefined;
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

function PickRow({ delivery: { id, type }, selection }: { delivery: Delivery; selection: Selection }) {
  return (
    <input
      type="checkbox"
      class="pick"
      aria-label={`Select ${type} ${id}`}
      checked={selection.ids.has(id)}
      onChange={({ currentTarget }) => selection.set([id], currentTarget.checked)}
    />
  );
}

function columnsOf({ hosts, selection }: Pick<Props, 'hosts' | 'selection'>): readonly (Column<Delivery> | null)[] {
  return [
    {
      head: 'State',
      headClass: 'col-state',
      cell: (delivery) => (
        <span class="state-cell">
          {selection && <PickRow delivery={delivery} selection={selection} />}
          <DeliveryBadge delivery={delivery} />
        </span>
      ),
    },
    {
      head: 'Event',
      class: 'cell-main',
      cell: ({ id, type, test }) => <RowName to={['deliveries', id]} name={type} test={test} id={id} />,
    },
    hosts
      ? {
          head: 'Webhook',
          headClass: 'col-webhook',
          class: 'cell-wide',
          cell: ({ webhook_id: id }) => (
            <div class="cut" title={hosts.get(id)}>
              {hosts.get(id) ?? <code>{id}</code>}
            </div>
          ),
        }
      : null,
    {
      head: 'Last result',
      headClass: 'col-result',
      name: 'Result',
      cell: (delivery) => <LastResult delivery={delivery} />,
    },
    {
      head: 'Attempts',
      headClass: 'col-attempts',
      name: 'Attempts',
      class: 'numbers',
      cell: ({ attempts_made, max_attempts }) => (
        <>
          {attempts_made}
          <span class="muted"> of {max_attempts}</span>
        </>
      ),
    },
    {
      head: 'Next attempt',
      headClass: 'col-next',
      name: 'Next',
      class: ({ state }) => (state === 'pending' ? 'numbers' : 'numbers cell-none'),
      cell: (delivery) => <Next delivery={delivery} />,
    },
    {
      head: 'Created',
      headClass: 'col-created cell-end',
      class: 'numbers cell-end',
      cell: ({ created_at }) => <Ago at={created_at} />,
    },
  ];
}

export function DeliveryTable({ caption, deliveries, hosts, selection }: Props) {
  return (
    <Table
      kind="deliveries"
      caption={caption}
      columns={columnsOf({ hosts, selection })}
      rows={deliveries}
      keyOf={({ id }) => id}
    />
  );
}
