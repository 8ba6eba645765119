import { UnansweredError } from './with-timeout.ts';
import { type ItemOutcome, writeIsolated } from './write-failure.ts';

/**
 * Group commit: what many callers want to write at the same moment goes to the database as one bulk operation, for a
 * round trip costs more than the document in it. A group is whatever was handed in during one turn of the event loop, or
 * while the groups before it were on their way; and where it is said, what comes a moment later. Who comes alone waits for
 * nobody. An item that cannot be written fails alone; see {@link writeIsolated}.
 */
export interface Group<Item, Result> {
  /** Resolves with what the write made of this item; rejects when the item cannot be written, or nothing can. */
  add(item: Item): Promise<Result>;
  /**
   * The same for what is of no use later: what has not had its turn by then is not written, and rejects with an
   * UnansweredError. A database that is too slow would else be kept busy with what nobody waits for any more.
   * @param until by `performance.now()`, milliseconds
   */
  addUntil(item: Item, until: number): Promise<Result>;
}

export interface GroupOptions<Item, Result> {
  /**
   * Writes a group; its results stand in the order of the items. What it may have written before it rejected is written
   * again without harm.
   */
  readonly write: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** Items in one group. */
  readonly most: number;
  /** Groups on their way at the same time. @default 1 */
  readonly atOnce?: number;
  /** How long the first of a group waits for others where the group before was of several. Milliseconds. @default 0 */
  readonly linger?: number;
  /** How long a write may take until it counts as failed; it may have been done. Milliseconds. @default 9_000 */
  readonly within?: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly until: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** Gathers items into groups. */
export function createGroup<Item, Result>(options: GroupOptions<Item, Result>): Group<Item, Result> {
  const { write, most, atOnce = 1, linger = 0, within } = options;
  const waiting: Waiting<Item, Result>[] = [];
  let writing = 0;
  let scheduled = false;
  let hadCompany = false;

  async function writeGroup(group: readonly Waiting<Item, Result>[]): Promise<void> {
    writing += 1;
    hadCompany = group.length > 1;
    const items = group.map(({ item }) => item);
    const outcomes = await writeIsolated(items, { write, ...(within !== undefined && { within }) });
    group.forEach(({ resolve, reject }, i) => {
      const outcome = outcomes[i] as ItemOutcome<Result>;
      if ('result' in outcome) resolve(outcome.result);
      else reject(outcome.error);
    });
    writing -= 1;
    if (lingers()) schedule();
    else writeNext();
  }

  const lingers = () => linger > 0 && hadCompany;

  /** The next of those that somebody waits for. */
  function take(): Waiting<Item, Result>[] {
    const now = performance.now();
    const group: Waiting<Item, Result>[] = [];
    let taken = 0;
    while (taken < waiting.length && group.length < most) {
      const next = waiting[taken] as Waiting<Item, Result>;
      taken += 1;
      if (next.until > now) group.push(next);
      else next.reject(new UnansweredError('the database was too slow for this to be written in time'));
    }
    waiting.splice(0, taken);
    return group;
  }

  function writeNext(): void {
    scheduled = false;
    while (waiting.length > 0 && writing < atOnce) {
      const group = take();
      if (group.length > 0) void writeGroup(group);
    }
  }

  function schedule(): void {
    if (scheduled || waiting.length === 0 || writing >= atOnce) return;
    scheduled = true;
    if (lingers()) setTimeout(writeNext, linger);
    else setImmediate(writeNext);
  }

  function addUntil(item: Item, until: number): Promise<Result> {
    return new Promise((resolve, reject) => {
      waiting.push({ item, until, resolve, reject });
      schedule();
    });
  }

  return { add: (item) => addUntil(item, Number.POSITIVE_INFINITY), addUntil };
}
