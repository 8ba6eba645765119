import { setTimeout as sleep } from 'node:timers/promises';
import { duration } from '../../options/kinds.ts';
import { dataFrom, type Schemas } from '../client/api.ts';
import type { CommandContext } from '../client/api-command.ts';
import { count, take } from '../client/flags.ts';
import { row, type Values } from '../client/operation-command.ts';
import { type FollowedList, followList, retryWhileUnavailable } from '../client/pages.ts';
import { type Column, tableLines } from '../terminal/table.ts';
import { localTime, relative, toJson, typeText } from '../terminal/text.ts';
import { attemptsOf, deliveryStateCell, lastOf } from './delivery-view.ts';

type Summary = Schemas['DeliverySummary'];

export const tailRow = row('listDeliveries', {
  does: 'follow deliveries live, a line for each change, until Ctrl-C',
  only: ['webhook_id', 'event_id', 'type', 'state', 'since', 'until'],
  flags: {
    lines: { flags: '--lines <n>', meaning: 'how many past ones to start with', read: count, usual: '10' },
    interval: {
      flags: '--interval <duration>',
      meaning: 'how often to look',
      read: take(duration(200, 3_600_000, 'a duration such as 500ms, 2s or 1m')),
      usual: '2s',
    },
  },
  examples: ['deliveries tail', 'deliveries tail --webhook wh_01kaj3m5x2f7q9w4n8r1t6b0zc --json'],
  run: tail,
});

/** @param values.interval milliseconds */
async function tail(
  { api, terminal, json }: CommandContext,
  { lines, interval, since }: { readonly lines: number; readonly interval: number; readonly since?: string },
  send: (query: Values) => Promise<Schemas['DeliveryList']>,
): Promise<void> {
  const interrupted = terminal.interruption();
  const deliveries = follow({
    list: (query) => send({ ...query }),
    get: (id) => dataFrom(api.GET('/v1/deliveries/{id}', { params: { path: { id } } })),
    now: terminal.now,
    past: lines,
    since,
  });
  const changes = retryWhileUnavailable(() => deliveries.changes(), terminal);
  while (!interrupted.aborted) {
    for (const delivery of await changes()) {
      const { paint, now } = terminal;
      const [line = ''] = json ? [toJson(delivery)] : tableLines(columns, [delivery], paint, now()).slice(1);
      terminal.print(line);
    }
    await sleep(interval, undefined, { signal: interrupted }).catch(() => {});
  }
}

/** Lines come one at a time, so each column has its width from the start. */
const columns: readonly Column<Summary>[] = [
  // one that has not ended has just been seen
  { header: '', cell: ({ ended_at: at }, now) => ({ text: localTime(at ?? now).slice(11), style: 'dim' }) },
  { header: '', cell: ({ id }) => id },
  { header: '', cell: deliveryStateCell, width: 9 },
  { header: '', cell: attemptsOf },
  { header: '', cell: lastOf, width: 15 },
  { header: '', cell: ({ next_attempt_at: at }, now) => (at ? `next ${relative(at, now)}` : ''), width: 11 },
  { header: '', cell: ({ webhook_id: id }) => id },
  { header: '', cell: typeText },
];

interface FollowOptions extends Pick<FollowedList<Summary>, 'list' | 'past' | 'since'> {
  readonly get: (id: string) => Promise<Schemas['DeliveryDetails']>;
  readonly now: () => number;
}

/** Pending ones that are older than the newest few seconds, and are looked at in one go. */
const maxOlder = 20;
/** Milliseconds that clocks may differ by when an attempt is taken to be due. */
const skew = 5_000;

/** Follows deliveries, older pending ones too, when an attempt is due. */
export function follow({ get, now, ...followed }: FollowOptions): { changes(): Promise<Summary[]> } {
  return followList({
    ...followed,
    createdAt: (delivery) => delivery.created_at,
    isFinal: ({ state }) => state !== 'pending',
    // the start of an attempt is not worth a line; its end is
    markOf: ({ state, attempts_made: attempts, last_code: code, last_status: status }) =>
      [state, attempts, code, status].join(' '),
    readOlder(known) {
      const mayHaveChanged = ({ state, in_flight: inFlight, next_attempt_at: next }: Summary) =>
        state === 'pending' && (inFlight || next === null || Date.parse(next) <= now() + skew);
      const due = known.filter(mayHaveChanged).slice(0, maxOlder);
      return Promise.all(
        due.map(async ({ id }) => {
          const { url: _, body: __, attempts: ___, schedule: ____, ...summary } = await get(id);
          return summary;
        }),
      );
    },
  });
}
