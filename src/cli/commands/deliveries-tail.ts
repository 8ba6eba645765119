import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseDuration } from '../../options/kinds.ts';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, type CommandContext } from '../client/api-command.ts';
import { count } from '../client/flags.ts';
import { gather, type ResultPage, retryWhileUnavailable } from '../client/pages.ts';
import { type Column, tableLines } from '../terminal/table.ts';
import type { Paint, Terminal } from '../terminal/terminal.ts';
import { localTime, relative, toJson, typeText } from '../terminal/text.ts';
import { attemptsOf, deliveryStateCell, type FilterOptions, lastOf, toQuery, withFilter } from './delivery-view.ts';

type Summary = Schemas['DeliverySummary'];

interface Options extends FilterOptions {
  readonly lines: number;
  /** Milliseconds. */
  readonly interval: number;
}

/** `deliveries tail` */
export function tailCommand(terminal: Terminal): Command {
  const description = 'follow deliveries live, a line for each change, until Ctrl-C';
  return withFilter(new ApiCommand(terminal, 'tail', description), terminal)
    .option('--lines <n>', 'how many past ones to start with', count, 10)
    .addOption(new Option('--interval <duration>', 'how often to look').argParser(readInterval).default(2_000, '2s'))
    .examples('deliveries tail', 'deliveries tail --webhook wh_01kaj3m5x2f7q9w4n8r1t6b0zc --json')
    .runs(tail);
}

const minInterval = 200;

function readInterval(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms >= minInterval && ms <= 3_600_000) return ms;
  throw new InvalidArgumentError('It must be a duration such as 500ms, 2s or 1m.');
}

async function tail({ api, terminal, json }: CommandContext, options: Options): Promise<void> {
  const interrupted = terminal.interruption();
  const filter = toQuery(options);
  const deliveries = follow({
    list: (query) => dataFrom(api.GET('/v1/deliveries', { params: { query: { ...filter, ...query } } })),
    get: (id) => dataFrom(api.GET('/v1/deliveries/{id}', { params: { path: { id } } })),
    now: terminal.now,
    past: options.lines,
    since: filter.since,
  });
  const changes = retryWhileUnavailable(() => deliveries.changes(), terminal);
  while (!interrupted.aborted) {
    for (const delivery of await changes()) {
      terminal.print(json ? toJson(delivery) : tailLine(delivery, terminal.paint, terminal.now()));
    }
    await sleep(options.interval, undefined, { signal: interrupted }).catch(() => {});
  }
}

/** What a delivery has just become, in one line. */
function tailLine(delivery: Summary, paint: Paint, now: number): string {
  const [, line = ''] = tableLines(columns, [delivery], paint, now);
  return line;
}

/** Lines come one at a time, so each column has its width from the start. */
const columns: readonly Column<Summary>[] = [
  { header: '', cell: ({ ended_at: at }, now) => ({ text: timeOf(at, now), style: 'dim' }) },
  { header: '', cell: ({ id }) => id },
  { header: '', cell: deliveryStateCell, width: 9 },
  { header: '', cell: attemptsOf },
  { header: '', cell: lastOf, width: 15 },
  { header: '', cell: ({ next_attempt_at: at }, now) => (at ? `next ${relative(at, now)}` : ''), width: 11 },
  { header: '', cell: ({ webhook_id: id }) => id },
  { header: '', cell: typeText },
];

/** When it ended, which may be a while ago for the first lines; else it has just been seen. */
function timeOf(ended: string | null, now: number): string {
  return localTime(ended ?? new Date(now).toISOString()).slice(11);
}

interface FollowDeps {
  /** Deliveries, newest first. */
  readonly list: (query: { limit: number; after?: string; since?: string }) => Promise<ResultPage<Summary>>;
  readonly get: (id: string) => Promise<Schemas['DeliveryDetails']>;
  readonly now: () => number;
  /** How many of the past to begin with. */
  readonly past: number;
  /** None made before; ISO 8601, UTC. */
  readonly since?: string | undefined;
}

/** Milliseconds that a delivery may appear later than one made after it: each is written when its event is fanned out. */
const overlap = 10_000;
/** Pending ones outside the overlap that are looked at in one go. */
const maxOlder = 20;
/** Milliseconds that clocks may differ by when an attempt is taken to be due. */
const skew = 5_000;

/**
 * Follows deliveries by looking at the list again and again: the newest few seconds whole, and older pending ones when
 * an attempt is due. All time comparisons but the last are the gateway's own.
 */
export function follow({ list, get, now, past, since }: FollowDeps): { changes(): Promise<Summary[]> } {
  /** Every delivery that may still appear or change, as it was last seen, in the order it was last looked at. */
  const latestById = new Map<string, Summary>();
  let horizon = since;
  let hasBegun = false;

  function note(delivery: Summary): boolean {
    const before = latestById.get(delivery.id);
    latestById.delete(delivery.id);
    latestById.set(delivery.id, delivery);
    return !before || markOf(before) !== markOf(delivery);
  }

  function advance([newest]: readonly Summary[]): void {
    if (!newest) return;
    const edge = new Date(Date.parse(newest.created_at) - overlap).toISOString();
    if (horizon === undefined || edge > horizon) horizon = edge;
    for (const [id, { state, created_at: created }] of latestById) {
      if (state !== 'pending' && created < horizon) latestById.delete(id);
    }
  }

  async function recent(): Promise<Summary[]> {
    const bound = horizon === undefined ? {} : { since: horizon };
    return (await gather(Number.POSITIVE_INFINITY, (query) => list({ ...bound, ...query }))).data;
  }

  async function begin(): Promise<Summary[]> {
    const read = (limit: number) => gather(limit, (query) => list({ ...(since && { since }), ...query }));
    const { data: latest } = await read(1);
    if (latest.length === 0) {
      hasBegun = true;
      return [];
    }
    advance(latest);
    // all of these are known, shown or not: later they would look new
    const newest = await recent();
    // one more may have been made since, so what is shown and what is known come of one read wherever that is enough
    const shown = newest.length < past ? (await read(past)).data : newest.slice(0, past);
    for (const delivery of [...newest, ...shown]) note(delivery);
    advance(newest);
    hasBegun = true;
    return shown.toReversed();
  }

  async function older(seen: ReadonlySet<string>): Promise<Summary[]> {
    const due = [...latestById.values()].filter(
      (delivery) => !seen.has(delivery.id) && mayHaveChanged(delivery, now()),
    );
    return Promise.all(due.slice(0, maxOlder).map(async ({ id }) => withoutDetails(await get(id))));
  }

  return {
    /** What is new or has changed since the last time, oldest first. */
    async changes() {
      if (!hasBegun) return begin();
      const newest = await recent();
      const others = await older(new Set(newest.map(({ id }) => id)));
      const changed = [...others, ...newest.toReversed()].filter(note);
      advance(newest);
      return changed;
    },
  };
}

/** A change of this is worth a line. The start of an attempt is not; its end is. */
function markOf({ state, attempts_made: attempts, last_code: code, last_status: status }: Summary): string {
  return [state, attempts, code, status].join(' ');
}

function mayHaveChanged({ state, in_flight: inFlight, next_attempt_at: next }: Summary, now: number): boolean {
  return state === 'pending' && (inFlight || next === null || Date.parse(next) <= now + skew);
}

function withoutDetails({
  url: _,
  body: __,
  attempts: ___,
  schedule: ____,
  ...summary
}: Schemas['DeliveryDetails']): Summary {
  return summary;
}
