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

  function writeNext(): void {
    scheduled = false;
    while (waiting.length > 0 && writing < atOnce) void writeGroup(waiting.splice(0, most));
  }

  function schedule(): void {
    if (scheduled || waiting.length === 0 || writing >= atOnce) return;
    scheduled = true;
    if (lingers()) setTimeout(writeNext, linger);
    else setImmediate(writeNext);
  }

  return {
    add(item) {
      return new Promise((resolve, reject) => {
        waiting.push({ item, resolve, reject });
        schedule();
      });
    },
  };
}
