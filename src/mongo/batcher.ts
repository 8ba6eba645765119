import type { Logger } from '../options/options.ts';
import { TimeoutError, withTimeout } from './periodic.ts';
import { hasLabel, hasWriteConcernError, notPrimary } from './unavailable.ts';

/**
 * Writes what many callers hand in at the same moment as one bulk operation, because a round trip costs more than the
 * document in it (group commit). A batch is what was handed in during one turn of the event loop, or while the batches
 * before it were being written; with `maxDelay`, also what comes a moment later. A single caller waits only where `interval` is not over since
 * the batch before, or where that had several items and was just written, and `maxDelay` is set. An item that cannot be written fails alone;
 * see {@link writeIsolated}. DataLoader caches by key, and has neither `until` nor a limit of concurrent batches.
 */
export interface Batcher<Item, Result> {
  /** Resolves with the write's result for this item. Rejects when the item cannot be written, or nothing can. */
  add(item: Item): Promise<Result>;
  /** From now on nothing waits for `interval`, so that nothing that closes waits for it. */
  close(): void;
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
  /** How long the first item waits for others if the batch before had more than one item, and was just written. Milliseconds. @default 0 */
  readonly maxDelay?: number;
  /**
   * How long after the start of one batch the next starts, unless `enough` items wait before: for what no caller waits for. Milliseconds.
   * @default 0
   */
  readonly interval?: number;
  /** As soon as so many items wait, `interval` is over and `maxDelay` begins. @default never */
  readonly enough?: number;
  /**
   * Until when an item is of use: if its batch has not started by then, it is not written and rejects with a TimeoutError. Otherwise a
   * slow database would stay busy with writes that no caller waits for any more. By `performance.now()`, milliseconds. @default forever
   */
  readonly until?: (item: Item) => number;
  /** After this time a write counts as failed, although it may have been done. Milliseconds. @default 9_000 */
  readonly timeout?: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** After so many times `maxDelay` without a write, nobody is expected to come at the same moment. */
const quietAfter = 10;

export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  const { write, maxSize, concurrency = 1, maxDelay = 0, enough = Infinity, until, timeout } = options;
  let { interval = 0 } = options;
  const waiting: Waiting<Item, Result>[] = [];
  let writing = 0;
  let isScheduled = false;
  let startedAt = Number.NEGATIVE_INFINITY;
  let endedAt = Number.NEGATIVE_INFINITY;
  /** Set while the next batch waits for `enough` items. */
  let gathering: NodeJS.Timeout | undefined;
  /** How long the next batch waits once there are `enough`. */
  let delay = 0;

  async function writeBatch(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    writing += 1;
    startedAt = performance.now();
    delay = batch.length > 1 ? maxDelay : 0;
    const items = batch.map(({ item }) => item);
    const outcomes = await writeIsolated(items, { write, timeout });
    batch.forEach(({ resolve, reject }, i) => {
      const outcome = outcomes[i] as ItemOutcome<Result>;
      if ('result' in outcome) resolve(outcome.result);
      else reject(outcome.error);
    });
    writing -= 1;
    endedAt = performance.now();
    if (delay > 0 || interval > 0) schedule();
    else writeNext();
  }

  function writeNext(): void {
    isScheduled = false;
    gathering = undefined;
    while (waiting.length > 0 && writing < concurrency) {
      const now = performance.now();
      const batch: Waiting<Item, Result>[] = [];
      let taken = 0;
      while (taken < waiting.length && batch.length < maxSize) {
        const next = waiting[taken] as Waiting<Item, Result>;
        taken += 1;
        if (until && until(next.item) <= now) {
          next.reject(new TimeoutError('the database was too slow for this to be written in time'));
        } else batch.push(next);
      }
      waiting.splice(0, taken);
      if (batch.length > 0) void writeBatch(batch);
    }
  }

  function schedule(): void {
    if (waiting.length === 0 || writing >= concurrency) return;
    const hasEnough = waiting.length >= enough;
    if (isScheduled && !(gathering && hasEnough)) return;
    isScheduled = true;
    clearTimeout(gathering);
    const now = performance.now();
    const rest = hasEnough ? 0 : startedAt + interval - now;
    gathering = rest > delay ? setTimeout(writeNext, rest) : undefined;
    if (gathering) return;
    const isBusy = writing > 0 || now - endedAt < quietAfter * delay;
    if (delay > 0 && isBusy) setTimeout(writeNext, delay);
    else setImmediate(writeNext);
  }

  return {
    add: (item) =>
      new Promise((resolve, reject) => {
        waiting.push({ item, resolve, reject });
        schedule();
      }),
    close() {
      interval = 0;
      if (!gathering) return;
      clearTimeout(gathering);
      writeNext();
    },
  };
}

type ItemOutcome<Result> = { readonly result: Result } | { readonly error: unknown };

interface IsolatedWrite<Item, Result> {
  /** Writes items together and returns the results in their order. Writing an item twice must do no harm. */
  readonly write: (items: readonly Item[], isFirstTry: boolean) => Promise<readonly Result[]>;
  /** For each write. Milliseconds. @default 9_000 */
  readonly timeout?: number | undefined;
}

/**
 * Writes items together. When that fails because of an item, writes each half separately, and so on until the item is alone:
 * one bad item in n costs 2 log2(n) more writes. After a failure of the database it tries nothing more, and every item that
 * is not written yet fails with that error. Never rejects.
 */
export async function writeIsolated<Item, Result>(
  items: readonly Item[],
  { write, timeout }: IsolatedWrite<Item, Result>,
): Promise<ItemOutcome<Result>[]> {
  /** Of the first items; the others' follow as they are written. */
  const outcomes: ItemOutcome<Result>[] = [];
  /** What is still to be written, the next part last. */
  const parts = items.length === 0 ? [] : [items];
  for (let part = parts.pop(); part; part = parts.pop()) {
    try {
      const results = await withTimeout(write(part, part === items), timeout);
      for (let i = 0; i < part.length; i += 1) outcomes.push({ result: results[i] as Result });
    } catch (error) {
      if (!isItemFailure(error)) return [...outcomes, ...items.slice(outcomes.length).map(() => ({ error }))];
      const middle = Math.ceil(part.length / 2);
      if (part.length === 1) outcomes.push({ error });
      else parts.push(part.slice(middle), part.slice(0, middle));
    }
  }
  return outcomes;
}

/**
 * The items that cannot be written, each with its error.
 * @throws the failure of the database, at the first item that it has kept from being written
 */
export function* itemFailures<Item>(
  items: readonly Item[],
  outcomes: readonly ItemOutcome<unknown>[],
): Generator<readonly [Item, unknown]> {
  for (const [i, item] of items.entries()) {
    const outcome = outcomes[i];
    if (!outcome || 'result' in outcome) continue;
    if (!isItemFailure(outcome.error)) throw outcome.error;
    yield [item, outcome.error];
  }
}

type Failure = { readonly name?: unknown; readonly code?: unknown };

/**
 * Errors thrown before anything is sent: the driver's (mongodb 7) for a document that is too large or malformed, BSON's for
 * a value that it cannot hold (a `RangeError` when a message outgrows its buffer), mongoose's for what its schema refuses,
 * and JavaScript's for a value of the wrong type.
 */
const unsendable = new Set([
  'BSONError',
  'CastError',
  'MongoInvalidArgumentError',
  'RangeError',
  'StrictModeError',
  'TypeError',
  'ValidationError',
]);

/** The server's codes below 10,000 for the content of a document or a statement (MongoDB's error_codes.yml). */
const refusedContents = new Set([
  2, // BadValue
  9, // FailedToParse
  14, // TypeMismatch
  16, // InvalidLength
  22, // InvalidBSON
  28, // PathNotViable
  40, // ConflictingUpdateOperators
  52, // DollarPrefixedFieldName
  53, // InvalidIdField
  54, // NotSingleValueField
  55, // InvalidDBRef
  56, // EmptyFieldName
  57, // DottedFieldName
  66, // ImmutableField
  121, // DocumentValidationFailure
  257, // TransactionTooLarge: fewer items may fit
  388, // TransactionTooLargeForCache: the same, of a server with little memory; the others' transactions do not count
]);

/** From here on, codes are assertions about what was sent (10334: a document too large; 16554, 28664: a value of the wrong type). */
const firstAssertion = 10_000;

/** Codes above that one which are about the server: it kept them from its first versions. */
const serverStates: ReadonlySet<unknown> = new Set([
  ...notPrimary,
  11_000, // DuplicateKey: its writer judges it
  14_031, // OutOfDiskSpace
]);

function isRefusedContent(error: unknown): boolean {
  const { code } = error as Failure;
  if (typeof code !== 'number' || hasWriteConcernError(error)) return false;
  return refusedContents.has(code) || (code >= firstAssertion && !serverStates.has(code));
}

/**
 * Whether a write of several items failed because of the content of one: without it, the others succeed. Every other
 * failure is the database's (the network, no primary, a time-out, a full disk, a conflict) and would hit each item alone, too.
 */
export function isItemFailure(error: unknown): boolean {
  if (hasLabel(error, 'RetryableWriteError') || hasLabel(error, 'TransientTransactionError')) return false;
  const { name } = error as Failure;
  if (unsendable.has(String(name))) return true;
  return (name === 'MongoServerError' || name === 'MongoBulkWriteError') && isRefusedContent(error);
}

/** What a log may show of an item's failure: never the message, which quotes what the item holds. */
function failureName(error: unknown): string {
  const { name, code } = error as Failure;
  return code === undefined ? String(name) : `${name} ${code}`;
}

/** How long further lines are held back after one. Milliseconds. */
const quiet = 60_000;

/** Makes the function that logs that an item was set aside: at most one line a minute, with the number of items since the line before. */
export function createSetAsideLog(logger: Pick<Logger, 'error'>, message: string) {
  let loggedAt = Number.NEGATIVE_INFINITY;
  let count = 0;
  return function logSetAside(error: unknown, context: Readonly<Record<string, unknown>> = {}): void {
    count += 1;
    const now = performance.now();
    if (now - loggedAt < quiet) return;
    logger.error(message, { count, reason: failureName(error), ...context });
    loggedAt = now;
    count = 0;
  };
}
