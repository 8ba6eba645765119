import { TimeoutError } from './with-timeout.ts';
import { type ItemOutcome, writeIsolated } from './writes/write-isolated.ts';

/**
 * Writes what many callers hand in at the same moment as one bulk operation, because a round trip costs more than the
 * document in it (group commit). A batch is what was handed in during one turn of the event loop, or while the batches
 * before it were being written; with `maxDelay`, also what comes a moment later. A single caller is not delayed. An item
 * that cannot be written fails alone; see {@link writeIsolated}. DataLoader caches by key, and has neither `until` nor a limit of
 * concurrent batches.
 */
export interface Batcher<Item, Result> {
  /** Resolves with the write's result for this item. Rejects when the item cannot be written, or nothing can. */
  add(item: Item): Promise<Result>;
  /**
   * The same for an item that is useless later: if its batch has not started by `until`, it is not written and rejects with
   * a TimeoutError. Otherwise a slow database would stay busy with writes that no caller waits for any more.
   * @param until by `performance.now()`, milliseconds
   */
  addUntil(item: Item, until: number): Promise<Result>;
}

export interface BatcherOptions<Item, Result> {
  /**
   * Writes a batch and returns the results in the order of the items. A write that rejects may be repeated in part, so
   * writing an item twice must do no harm.
   */
  readonly write: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** Items in one batch. */
  readonly maxSize: number;
  /** Batches that are written at the same time. @default 1 */
  readonly concurrency?: number;
  /** How long the first item waits for others if the batch before had more than one item. Milliseconds. @default 0 */
  readonly maxDelay?: number;
  /** After this time a write counts as failed, although it may have been done. Milliseconds. @default 9_000 */
  readonly timeout?: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly until: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  const { write, maxSize, concurrency = 1, maxDelay = 0, timeout } = options;
  const waiting: Waiting<Item, Result>[] = [];
  let writing = 0;
  let scheduled = false;
  let hadSeveral = false;

  async function writeBatch(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    writing += 1;
    hadSeveral = batch.length > 1;
    const items = batch.map(({ item }) => item);
    const outcomes = await writeIsolated(items, { write, ...(timeout !== undefined && { timeout }) });
    batch.forEach(({ resolve, reject }, i) => {
      const outcome = outcomes[i] as ItemOutcome<Result>;
      if ('result' in outcome) resolve(outcome.result);
      else reject(outcome.error);
    });
    writing -= 1;
    if (delays()) schedule();
    else writeNext();
  }

  const delays = () => maxDelay > 0 && hadSeveral;

  /** The next items whose callers still wait. */
  function take(): Waiting<Item, Result>[] {
    const now = performance.now();
    const batch: Waiting<Item, Result>[] = [];
    let count = 0;
    while (count < waiting.length && batch.length < maxSize) {
      const next = waiting[count] as Waiting<Item, Result>;
      count += 1;
      if (next.until > now) batch.push(next);
      else next.reject(new TimeoutError('the database was too slow for this to be written in time'));
    }
    waiting.splice(0, count);
    return batch;
  }

  function writeNext(): void {
    scheduled = false;
    while (waiting.length > 0 && writing < concurrency) {
      const batch = take();
      if (batch.length > 0) void writeBatch(batch);
    }
  }

  function schedule(): void {
    if (scheduled || waiting.length === 0 || writing >= concurrency) return;
    scheduled = true;
    if (delays()) setTimeout(writeNext, maxDelay);
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
