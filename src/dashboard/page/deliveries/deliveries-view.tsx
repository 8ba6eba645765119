import { useState } from 'preact/hooks';
import { dataOf } from '../data/api.ts';
import { useAction } from '../data/query.ts';
import type { Route } from '../data/route.ts';
import { useApi } from '../data/session.ts';
import type { Delivery, RecoverBody, WebhookSummary } from '../data/types.ts';
import { useAnnounce } from '../elements/announce.tsx';
import { StatusBadge } from '../elements/badge.tsx';
import { Button } from '../elements/button.tsx';
import { Choice, ClearFilters, Filters, isNarrowed, Tabs, TimeRange, usePeriod } from '../elements/filters.tsx';
import { counted } from '../elements/format.ts';
import { FailedFirst, type HistoryFilter, HistoryList } from '../elements/history.tsx';
import { AgainIcon } from '../elements/icons.tsx';
import { Failure } from '../elements/states.tsx';
import { type Column, endNumbers, type List, numbers, RowName, Table } from '../elements/table.tsx';
import { Ago, Countdown } from '../elements/time.tsx';
import { Heading, Notice } from '../elements/view.tsx';
import { EventTypeChoice } from '../events/event-types.tsx';
import { shortUrl, useWebhooks } from '../webhooks/webhook.tsx';
import { deliveryStatus, outcomeWords } from './delivery.tsx';

export const deliveryStates = [
  { value: 'failed', name: 'Failed' },
  { value: 'pending', name: 'Pending' },
  { value: 'delivered', name: 'Delivered' },
  { value: 'canceled', name: 'Canceled' },
] as const;

const narrowing = ['webhook', 'type', 'time', 'event', 'state'];

/** Every delivery of the account. */
export function DeliveriesView({ route }: { route: Route }) {
  const { webhook, type, event } = route.query;
  const webhooks = useWebhooks().data?.data ?? [];
  const period = usePeriod(route);
  return (
    <>
      <Heading title="Deliveries" />
      <Filters label="Filter deliveries">
        <Tabs route={route} name="state" label="State" any="All" options={deliveryStates} />
        <Choice
          route={route}
          name="webhook"
          label="Webhook"
          any="Any webhook"
          options={webhooks.map(({ id, url }) => ({ value: id, name: url }))}
        />
        <EventTypeChoice route={route} />
        <TimeRange route={route} />
        <ClearFilters route={route} names={narrowing} />
      </Filters>
      <DeliveryList
        route={route}
        filter={{ webhook_id: webhook, type, event_id: event, ...period }}
        webhooks={webhooks}
        mayRecover
        narrowed={isNarrowed(route, narrowing)}
      />
    </>
  );
}

interface Props {
  readonly route: Route;
  readonly filter: HistoryFilter;
  /** The account's, where they are of several. */
  readonly webhooks?: readonly WebhookSummary[];
  /** Whether what a filter finds of them can be recovered. @default it cannot */
  readonly mayRecover?: boolean;
  /** Whether there is a filter, for the text that is shown when nothing is found. */
  readonly narrowed: boolean;
}

/** Deliveries, newest first; those on a page can be sent again. */
export function DeliveryList({ route, filter, webhooks, mayRecover, narrowed }: Props) {
  const selection = useSelection();
  const urls = webhooks && new Map(webhooks.map(({ id, url }) => [id, shortUrl(url)]));
  const { state } = route.query;
  const tableOf = (rows: readonly Delivery[], caption: string, chosen?: Selection) => (
    <Table {...listOf(urls, chosen)} caption={caption} rows={rows} />
  );
  return (
    <HistoryList
      route={route}
      what="deliveries"
      filter={filter}
      failedAsked={50}
      narrowed={narrowed}
      none="Each event that is sent to a webhook appears here at once. Send a test event to see one."
      aside={(reload) =>
        mayRecover &&
        webhooks &&
        (state === 'failed' || state === 'canceled') && (
          <RecoverMatching filter={filter} state={state} webhooks={webhooks} onStarted={reload} />
        )
      }
      table={tableOf}
      page={(deliveries, caption, reload) => (
        <>
          <ResendSelected deliveries={deliveries} selection={selection} onSent={reload} />
          {tableOf(deliveries, caption, selection)}
        </>
      )}
    />
  );
}

/** The latest failed ones of the account; says so where there are none. */
export function FailedDeliveries({ webhooks }: { webhooks: readonly WebhookSummary[] }) {
  const urls = new Map(webhooks.map(({ id, url }) => [id, shortUrl(url)]));
  return (
    <FailedFirst
      route={{ path: ['deliveries'], query: {} }}
      what="deliveries"
      filter={{}}
      failedAsked={50}
      table={(rows, caption) => <Table {...listOf(urls, undefined)} caption={caption} rows={rows} />}
      known=""
      otherwise={<Notice icon="good">No delivery has failed in the last 7 days.</Notice>}
    />
  );
}

/**
 * @param urls of the webhooks, by id; absent where all deliveries are of one
 * @param selection absent where rows cannot be chosen
 */
function listOf(urls: ReadonlyMap<string, string> | undefined, selection: Selection | undefined): List<Delivery> {
  return {
    kind: 'deliveries',
    keyOf: ({ id }) => id,
    columns: [
      {
        head: 'State',
        // with room for a box to choose it by
        width: selection ? '152px' : '126px',
        cell: (delivery) => (
          <span class="line">
            {selection && (
              <input
                type="checkbox"
                class="pick"
                aria-label={`Select ${delivery.type} ${delivery.id}`}
                checked={selection.ids.includes(delivery.id)}
                onChange={({ currentTarget }) => selection.set([delivery.id], currentTarget.checked)}
              />
            )}
            <StatusBadge status={deliveryStatus(delivery)} />
          </span>
        ),
      },
      {
        head: 'Event',
        class: 'cell-main',
        cell: ({ id, type, test }) => <RowName to={['deliveries', id]} name={type} test={test} id={id} />,
      },
      urls ? webhookColumn(urls) : null,
      { head: 'Last result', width: '132px', name: 'Result', cell: LastResult },
      {
        width: '84px',
        ...numbers('Attempts', ({ attempts_made, max_attempts }) => (
          <>
            {attempts_made}
            <span class="muted"> of {max_attempts}</span>
          </>
        )),
      },
      {
        head: 'Next attempt',
        width: '124px',
        name: 'Next',
        class: ({ state }) => (state === 'pending' ? 'numbers' : 'numbers cell-none'),
        cell: Next,
      },
      { width: '104px', ...endNumbers('Created', ({ created_at }) => <Ago at={created_at} />) },
    ],
  };
}

function webhookColumn(urls: ReadonlyMap<string, string>): Column<Delivery> {
  return {
    head: 'Webhook',
    width: '186px',
    class: 'cell-wide',
    cell: ({ webhook_id: id }) => (
      <div class="cut" title={urls.get(id)}>
        {urls.get(id) ?? <code>{id}</code>}
      </div>
    ),
  };
}

function LastResult({ last_status: status, last_code: code, attempts_made }: Delivery) {
  if (status === null && code === null) return <span class="muted">{attempts_made === 0 ? 'None yet' : '—'}</span>;
  return <>{outcomeWords({ status, code })}</>;
}

function Next({ state, in_flight, next_attempt_at }: Delivery) {
  if (in_flight) return <>now</>;
  if (state !== 'pending' || next_attempt_at === null) return <span class="muted">—</span>;
  return <Countdown to={next_attempt_at} />;
}

/** How many are sent at once. */
const concurrency = 4;

/** Which rows are chosen. */
type Selection = ReturnType<typeof useSelection>;

function useSelection() {
  const [ids, setIds] = useState<readonly string[]>([]);
  const set = (changed: readonly string[], chosen: boolean) =>
    setIds((before) => [...before.filter((id) => !changed.includes(id)), ...(chosen ? changed : [])]);
  return { ids, set };
}

interface ResendProps {
  /** Those on the page. */
  readonly deliveries: readonly Delivery[];
  readonly selection: Selection;
  readonly onSent: () => void;
}

/** Chooses all on the page, and makes one more attempt of each that is chosen. */
function ResendSelected({ deliveries, selection, onSent }: ResendProps) {
  const api = useApi();
  const announce = useAnnounce();
  const [progress, setProgress] = useState('');
  const ids = deliveries.map(({ id }) => id);
  const chosen = ids.filter((id) => selection.ids.includes(id));
  const resend = useAction(async () => {
    const waiting = [...chosen];
    let [sent, delivered] = [0, 0];
    async function sendSome(): Promise<void> {
      for (let id = waiting.shift(); id; id = waiting.shift()) {
        try {
          const { state } = await dataOf(api.POST('/v1/deliveries/{id}/resend', { params: { path: { id } } }));
          sent += 1;
          if (state === 'delivered') delivered += 1;
          selection.set([id], false);
          setProgress(`${sent} of ${chosen.length} sent`);
        } catch (error) {
          // the others are not begun; what is chosen still is what has not been sent
          waiting.length = 0;
          throw error;
        }
      }
    }
    const ended = await Promise.allSettled(Array.from({ length: concurrency }, sendSome));
    setProgress('');
    onSent();
    announce(`${counted(sent, 'delivery', 'deliveries')} sent again, ${delivered} of them delivered`);
    const failure = ended.find(({ status }) => status === 'rejected');
    if (failure?.status === 'rejected') throw failure.reason;
  });
  return (
    <>
      <div class="selection wrap spread">
        <label class="check">
          <input
            type="checkbox"
            checked={chosen.length === ids.length}
            onChange={({ currentTarget }) => selection.set(ids, currentTarget.checked)}
          />
          Select all on this page
        </label>
        <Button
          busy={resend.running}
          disabledReason={chosen.length === 0 && 'Select deliveries first'}
          onClick={() => void resend.run()}
        >
          <AgainIcon />
          {progress || (chosen.length > 0 ? `Send ${chosen.length} again` : 'Send selected again')}
        </Button>
      </div>
      {resend.error && <Failure error={resend.error} />}
    </>
  );
}

interface RecoverProps {
  readonly filter: HistoryFilter;
  readonly state: 'failed' | 'canceled';
  readonly webhooks: readonly WebhookSummary[];
  readonly onStarted: () => void;
}

/** Where the filter says no time: deliveries are kept for 30 days unless the operator says otherwise. Milliseconds. */
const longest = 29 * 86_400_000;

function disabledReason({ type, event_id }: HistoryFilter, targets: readonly WebhookSummary[]): string | false {
  if (type || event_id) return 'A recovery sends events of every type: clear the filters by type and event';
  return targets.length === 0 && 'No webhook that is active matches: resume it first';
}

/** Recovers everything that a filter finds: at the gateway's rate, whether this page stays open or not. */
function RecoverMatching({ filter, state, webhooks, onStarted }: RecoverProps) {
  const api = useApi();
  const announce = useAnnounce();
  const { webhook_id, since, until } = filter;
  const targets = webhooks.filter(({ id, active }) => active && (!webhook_id || id === webhook_id));
  const recover = useAction(async () => {
    const from = since ?? new Date(Date.now() - longest).toISOString();
    let total = 0;
    for (const { id } of targets) {
      const body = { since: from, ...(until && { until }), states: [state] } as RecoverBody;
      const { found } = await dataOf(api.POST('/v1/webhooks/{id}/recover', { params: { path: { id } }, body }));
      total += found;
    }
    announce(`${counted(total, 'delivery is', 'deliveries are')} being sent again`);
    onStarted();
  });
  return (
    <>
      <Button
        busy={recover.running}
        disabledReason={disabledReason(filter, targets)}
        onClick={() => void recover.run()}
      >
        Send all {state} again
      </Button>
      {recover.error && <Failure error={recover.error} />}
    </>
  );
}
