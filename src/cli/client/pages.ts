import { CommandFailure, PassingFailure } from '../terminal/command-failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** A page of a list, as every list of the API answers. */
export interface ResultPage<Row> {
  data: Row[];
  has_more?: boolean | undefined;
  /** What the next page follows, where that is not the last row of this one. */
  next_after?: string;
}

/** A row of a list: most have an id, accounts the user's. */
export type Listed = { readonly id?: string; readonly user_id?: string };

/** The row that the next page follows; none where there is no row yet. */
export function nextAfter({ data, next_after: next }: ResultPage<Listed>): string | undefined {
  const last = data.at(-1);
  return next ?? last?.id ?? last?.user_id;
}

export interface PageQuery {
  limit: number;
  after?: string;
}

/** The most one request answers. */
const pageSize = 100;

/**
 * Puts pages together until there are `limit` rows or no more.
 * @throws CommandFailure for a list that goes on, but does not say where
 */
export async function gather<Row extends Listed>(
  limit: number,
  page: (query: PageQuery) => Promise<ResultPage<Row>>,
  start?: string,
): Promise<ResultPage<Row>> {
  const data: Row[] = [];
  let after = start;
  for (;;) {
    const next = await page({ limit: Math.min(pageSize, limit - data.length), ...(after && { after }) });
    data.push(...next.data);
    const before = after;
    after = nextAfter({ ...next, data });
    const { has_more, next_after } = next;
    const isLast = !has_more || (next.data.length === 0 && next_after === undefined);
    if (isLast || data.length >= limit) return { data, has_more, ...(next_after !== undefined && { next_after }) };
    // the same page would come again and again
    if (after === undefined || after === before) {
      throw new CommandFailure('The list says that there is more, but not how to read on.');
    }
  }
}

export interface FollowedList<Item> {
  /** Newest first. */
  readonly list: (query: PageQuery & { since?: string }) => Promise<ResultPage<Item>>;
  /** ISO 8601, UTC. */
  readonly createdAt: (item: Item) => string;
  /** How many of the past to begin with. */
  readonly past: number;
  /** None made before; ISO 8601, UTC. */
  readonly since?: string | undefined;
  /** Whether it will change no more. @default all are final */
  readonly isFinal?: (item: Item) => boolean;
  /** A change of this is reported. @default none */
  readonly markOf?: (item: Item) => string;
  /** Reads those again that may have changed, of those that are known and too old for the newest few seconds. @default none */
  readonly readOlder?: (known: readonly Item[]) => Promise<Item[]>;
}

/** Milliseconds that an item may appear later than one made after it, such as an event of a transaction. */
const overlap = 10_000;

/**
 * Follows a list by looking at it again and again: at the newest few seconds whole, and at what `readOlder` chooses. All times
 * that are compared here are the gateway's own.
 */
export function followList<Item extends { id: string }>(followed: FollowedList<Item>) {
  const { list, createdAt, past, since, isFinal = () => true, markOf = () => '', readOlder } = followed;
  /** Every item that may still appear or change, as it was last seen, in the order it was last looked at. */
  const latestById = new Map<string, Item>();
  let horizon = since;
  let hasBegun = false;

  function note(item: Item): boolean {
    const before = latestById.get(item.id);
    latestById.delete(item.id);
    latestById.set(item.id, item);
    return !before || markOf(before) !== markOf(item);
  }

  function advance([newest]: readonly Item[]): void {
    if (!newest) return;
    const edge = new Date(Date.parse(createdAt(newest)) - overlap).toISOString();
    if (horizon === undefined || edge > horizon) horizon = edge;
    for (const [id, item] of latestById) if (isFinal(item) && createdAt(item) < horizon) latestById.delete(id);
  }

  async function read(limit: number, from: string | undefined): Promise<Item[]> {
    return (await gather(limit, (query) => list({ ...(from && { since: from }), ...query }))).data;
  }

  const readRecent = () => read(Number.POSITIVE_INFINITY, horizon);

  async function begin(): Promise<Item[]> {
    const latest = await read(1, since);
    if (latest.length === 0) return [];
    advance(latest);
    // all of these are known, shown or not: later they would look new
    const newest = await readRecent();
    // one more may have been made since, so what is shown and what is known come of one read wherever that is enough
    const shown = newest.length < past ? await read(past, since) : newest.slice(0, past);
    for (const item of [...newest, ...shown]) note(item);
    advance(newest);
    return shown.toReversed();
  }

  return {
    /** What is new or has changed since the last time, oldest first; of the past at the first time. */
    async changes(): Promise<Item[]> {
      if (!hasBegun) {
        const shown = await begin();
        hasBegun = true;
        return shown;
      }
      const newest = await readRecent();
      const seen = new Set(newest.map(({ id }) => id));
      const older = await readOlder?.([...latestById.values()].filter(({ id }) => !seen.has(id)));
      const changed = [...(older ?? []), ...newest.toReversed()].filter(note);
      advance(newest);
      return changed;
    },
  };
}

/**
 * Returns nothing while the gateway restarts or is busy, so that the caller reads again, and says once that it waits. The first
 * read must succeed.
 */
export function retryWhileUnavailable<T>(read: () => Promise<T[]>, { printNote }: Terminal): () => Promise<T[]> {
  let waiting: boolean | undefined;
  return async () => {
    try {
      const items = await read();
      if (waiting) printNote('It answers again.');
      waiting = false;
      return items;
    } catch (error) {
      if (waiting === undefined || !(error instanceof PassingFailure)) throw error;
      if (!waiting) printNote(`${error.message.split('\n')[0]} Waiting for it …`);
      waiting = true;
      return [];
    }
  };
}
