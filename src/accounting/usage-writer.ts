import { modelNameLimit } from '../ids.ts';
import { createSetAsideLog, isItemFailure, writeIsolated } from '../mongo/batcher.ts';
import { durableCollection } from '../mongo/collection.ts';
import { createPeriodic } from '../mongo/periodic.ts';
import type { Logger, OpenUsage, UsageRecord } from '../options/options.ts';
import type { UsageDocument, UsageModel } from './model.ts';
import type { CountedRecord } from './sums.ts';

/** What has to be written of one call. */
type UsageWrite =
  | { readonly kind: 'open'; readonly usage: OpenUsage }
  | { readonly kind: 'closed'; readonly record: UsageRecord; readonly unopened: boolean }
  | { readonly kind: 'dropped' };

type UsageWriterDeps = Required<
  Pick<UsageServiceDeps, 'usage' | 'flushInterval' | 'waitingLimit' | 'onWritten' | 'onLost' | 'logger'>
>;

/** The most records of one write, so that a long backlog does not become one write that takes too long. */
const batchSize = 2_000;

/**
 * Writes usage records in batches, so that a call costs a share of a round trip and never waits for one. If a call ends before
 * its open record is written, only the closed record is written.
 */
class UsageWriter {
  readonly #deps: UsageWriterDeps;
  readonly #writeUsage: ReturnType<typeof createWriteUsage>;
  readonly #backlogLog: ReturnType<typeof createBacklogLog>;
  readonly #logSetAside: ReturnType<typeof createSetAsideLog>;
  #pending = new Map<string, UsageWrite>();
  /** Records that were sent, and may have been written although the database has not confirmed it. */
  #unsure = new Set<string>();
  /** The records of the write under way, and how many of them have no newer entry that waits. */
  #sent: ReadonlySet<string> = new Set();
  #sentAlone = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #nextWriting: Promise<void> | undefined;
  #isClosed = false;

  constructor(deps: UsageWriterDeps) {
    const { usage, logger } = deps;
    this.#deps = deps;
    this.#writeUsage = createWriteUsage(usage);
    this.#backlogLog = createBacklogLog(logger);
    this.#logSetAside = createSetAsideLog(logger, 'usage records cannot be written and are not counted');
  }

  open(usage: OpenUsage): void {
    this.#add(usage.id, { kind: 'open', usage });
  }

  close(record: UsageRecord): void {
    const unopened = this.#pending.get(record.id)?.kind === 'open';
    this.#add(record.id, { kind: 'closed', record, unopened });
  }

  /** Forgets a call that got no answer. */
  drop(id: string): void {
    // it was never written, so there is nothing to delete
    if (this.#pending.delete(id) && !this.#unsure.has(id)) return;
    this.#add(id, { kind: 'dropped' });
  }

  /**
   * Writes all entries; resolves when they are written or the database has refused them. All that ask while a write is under way wait for one
   * write after it: under a load whose writes take longer than the interval, they would otherwise become more and more.
   */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#writing) {
      this.#nextWriting ??= this.#writing.finally(() => {
        this.#nextWriting = undefined;
        return this.flush();
      });
      return this.#nextWriting;
    }
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  /** Writes all entries. From now on, those that the database does not accept no longer keep the process alive. */
  async end(): Promise<void> {
    this.#isClosed = true;
    await this.flush();
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.flush(), this.#deps.flushInterval);
    if (this.#isClosed) this.#timer.unref();
  }

  #add(id: string, entry: UsageWrite): void {
    if (this.#sent.has(id) && !this.#pending.has(id)) this.#sentAlone -= 1;
    this.#pending.set(id, entry);
    this.#forgetOldest();
    this.#schedule();
  }

  async #writeAll(): Promise<void> {
    while (this.#pending.size > 0) {
      const isWritten = await this.#write(this.#takeBatch());
      if (!isWritten) return;
    }
  }

  #takeBatch(): (readonly [string, UsageWrite])[] {
    const batch: (readonly [string, UsageWrite])[] = [];
    for (const entry of this.#pending) {
      if (batch.length === batchSize) break;
      batch.push(entry);
      this.#pending.delete(entry[0]);
    }
    return batch;
  }

  /** @returns whether the database has accepted all of it */
  async #write(entries: readonly (readonly [string, UsageWrite])[]): Promise<boolean> {
    this.#sent = new Set(entries.map(([id]) => id));
    this.#sentAlone = this.#sent.size;
    const unsure = this.#unsure;
    const written: ClosedDocument[] = [];
    const outcomes = await writeIsolated(entries, {
      write: async (part, isFirstTry) => {
        const partEntries = new Map(part);
        written.push(...(await this.#writeUsage(partEntries, isFirstTry ? unsure : new Set(partEntries.keys()))));
        return [];
      },
    });
    const failed = new Map<string, UsageWrite>();
    let failure: unknown;
    for (const [i, [id, entry]] of entries.entries()) {
      const outcome = outcomes[i];
      unsure.delete(id);
      if (!outcome || 'result' in outcome) continue;
      if (isItemFailure(outcome.error)) {
        this.#logSetAside(outcome.error, { id });
        if (entry.kind === 'closed') this.#deps.onLost(entry.record);
        continue;
      }
      failure = outcome.error;
      failed.set(id, entry);
      unsure.add(id);
    }
    this.#sent = new Set();
    this.#sentAlone = 0;
    this.#putBack(failed);
    if (failed.size > 0) this.#backlogLog.failed(failure);
    else this.#backlogLog.recovered();
    if (written.length > 0) this.#deps.onWritten(written);
    return failed.size === 0;
  }

  /** Puts the entries that failed before those that have arrived since. */
  #putBack(failed: Map<string, UsageWrite>): void {
    if (failed.size === 0) return;
    for (const [id, entry] of this.#pending) failed.set(id, entry);
    this.#pending = failed;
    this.#forgetOldest();
    this.#schedule();
  }

  #forgetOldest(): void {
    if (this.#pending.size + this.#sentAlone <= this.#deps.waitingLimit) return;
    for (const [id, entry] of this.#pending) {
      if (this.#pending.size + this.#sentAlone <= this.#deps.waitingLimit) return;
      // the open record of that call is being written, so its end must not get lost
      if (this.#sent.has(id)) continue;
      this.#pending.delete(id);
      this.#unsure.delete(id);
      // a call that still runs is recorded again when it ends
      if (entry.kind !== 'closed') continue;
      this.#backlogLog.lost();
      this.#deps.onLost(entry.record);
    }
  }
}

/** Logs once that usage records cannot be written, once that some are lost, and how many when the database is back. */
function createBacklogLog(logger: Logger) {
  let failing = false;
  let lost = 0;
  return {
    failed(error: unknown) {
      const reason = String(error);
      if (!failing) logger.error('usage records could not be written and will be tried again', { reason });
      failing = true;
    },
    lost() {
      if (lost === 0) logger.error('more usage records wait than usageBacklog allows: the oldest are lost');
      lost += 1;
    },
    recovered() {
      if (failing || lost > 0) logger.warn('usage records are written again', { lost });
      failing = false;
      lost = 0;
    },
  };
}

type BulkOperation = Parameters<ReturnType<typeof durableCollection<UsageDocument>>['bulkWrite']>[0][number];

/** The record of an ended call, as it is stored. */
type ClosedDocument = ReturnType<typeof toClosedDocument>;

function toOpenDocument({ id: _id, ...usage }: OpenUsage): UsageDocument {
  const unknown = {
    cachedInputTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    images: 0,
    durationMs: 0,
    firstByteMs: 0,
  };
  return { _id, ...usage, ...unknown, estimated: true, ending: null };
}

/** The fields of an open record that change when its call ends. */
function endOf(record: UsageRecord) {
  return {
    upstream: record.upstream,
    inputTokens: record.inputTokens,
    cachedInputTokens: record.cachedInputTokens,
    outputTokens: record.outputTokens,
    reasoningTokens: record.reasoningTokens,
    images: record.images,
    seconds: record.seconds,
    characters: record.characters,
    stored: record.stored,
    estimated: record.estimated,
    ending: record.ending,
    durationMs: record.durationMs,
    firstByteMs: record.firstByteMs,
    counted: false,
  };
}

/** Field by field: a spread followed by more fields makes a dictionary, which adds 4 KB to the 71 KB that a call allocates. */
function toClosedDocument(record: UsageRecord) {
  return {
    _id: record.id,
    requestId: record.requestId,
    userId: record.userId,
    keyId: record.keyId,
    endpoint: record.endpoint,
    model: record.model,
    upstream: record.upstream,
    inputTokens: record.inputTokens,
    cachedInputTokens: record.cachedInputTokens,
    outputTokens: record.outputTokens,
    reasoningTokens: record.reasoningTokens,
    images: record.images,
    seconds: record.seconds,
    characters: record.characters,
    stored: record.stored,
    estimated: record.estimated,
    ending: record.ending,
    startedAt: record.startedAt,
    durationMs: record.durationMs,
    firstByteMs: record.firstByteMs,
    counted: false,
  } satisfies UsageDocument;
}

/** Closes an open record, and leaves a closed one as it is. */
function toClosing(record: UsageRecord): BulkOperation {
  return { updateOne: { filter: { _id: record.id, ending: null }, update: { $set: endOf(record) } } };
}

/** The same as an upsert, for a record that may not exist: a closed one stays as it is. */
function closing({ id: _, ...record }: UsageRecord): object[] {
  const closed = {
    $mergeObjects: ['$$ROOT', { $literal: { ...record, counted: false } satisfies Omit<UsageDocument, '_id'> }],
  };
  const ended = { $gt: ['$ending', null] };
  return [{ $replaceWith: { $cond: [ended, '$$ROOT', closed] } }];
}

function toRepeatable(id: string, entry: UsageWrite): BulkOperation {
  const filter = { _id: id };
  switch (entry.kind) {
    case 'open':
      return { updateOne: { filter, update: { $setOnInsert: toOpenDocument(entry.usage) }, upsert: true } };
    case 'closed':
      return { updateOne: { filter, update: closing(entry.record), upsert: true } };
    case 'dropped':
      return { deleteOne: { filter: { ...filter, ending: null } } };
  }
}

/** Of writes that do not depend on each other. */
const unordered = { ordered: false } as const;

function createWriteUsage(usage: UsageModel) {
  const collection = durableCollection(usage);

  /**
   * Writes entries of calls, by the ids of their records. Those in `unsure` may be written already, so they are written in a way that does
   * no harm the second time.
   * @returns the closed records that are in the database now, and certainly not counted yet
   */
  return async function writeUsage(batch: ReadonlyMap<string, UsageWrite>, unsure: ReadonlySet<string>) {
    const opened: UsageDocument[] = [];
    const ended: ClosedDocument[] = [];
    const ending: UsageRecord[] = [];
    const others: BulkOperation[] = [];
    for (const [id, entry] of batch) {
      if (unsure.has(id) || entry.kind === 'dropped') others.push(toRepeatable(id, entry));
      else if (entry.kind === 'open') opened.push(toOpenDocument(entry.usage));
      else if (entry.unopened) ended.push(toClosedDocument(entry.record));
      else ending.push(entry.record);
    }
    if (opened.length + ended.length > 0) await collection.insertMany([...opened, ...ended], unordered);
    const closings = ending.map(toClosing);
    const matched = closings.length > 0 ? (await collection.bulkWrite(closings, unordered)).matchedCount : 0;
    // some were closed as orphans, or never opened, and it is unknown which
    const isUncertain = matched < ending.length;
    if (isUncertain)
      others.push(...ending.map((record) => toRepeatable(record.id, { kind: 'closed', record, unopened: false })));
    if (others.length > 0) await collection.bulkWrite(others, unordered);
    return isUncertain ? ended : [...ended, ...ending.map(toClosedDocument)];
  };
}

export interface UsageServiceDeps {
  readonly usage: UsageModel;
  readonly logger: Logger;
  /** The longest that a call can take. An open record that is older, by the margin too, is of a process that died. Milliseconds. */
  readonly longestCall: number;
  /**
   * How long records are gathered before they are written together. A kill loses what arrives in this time and during one write.
   * Milliseconds. @default 50
   */
  readonly flushInterval?: number;
  /** The most records that wait while the database is unavailable. If there are more, the oldest are lost. @default 100_000 */
  readonly waitingLimit?: number;
  /** How much clocks may differ before a record counts as orphaned. Milliseconds. @default 60_000 */
  readonly clockMargin?: number;
  /** Called once with each record of an ended call that this process has written: it can be counted now. */
  readonly onWritten?: (records: readonly CountedRecord[]) => void;
  /** Called with each record of an ended call that will not be written. */
  readonly onLost?: (record: Pick<UsageRecord, 'id' | 'userId'>) => void;
}

/** Records what model calls use: one record for each call, open while it runs. */
export type UsageService = ReturnType<typeof createUsageService>;

/** How often a process looks for orphaned records. Milliseconds. */
const sweepInterval = 60_000;

/** The record, with the name of its model cut to the limit: callers choose it. */
function withinLimit<T extends { readonly model: string | null }>(record: T): T {
  const { model } = record;
  return model !== null && model.length > modelNameLimit
    ? { ...record, model: model.slice(0, modelNameLimit) }
    : record;
}

export function createUsageService(deps: UsageServiceDeps) {
  const { usage, logger, longestCall, flushInterval = 50, waitingLimit = 100_000 } = deps;
  const { clockMargin = 60_000, onWritten = () => {}, onLost = () => {} } = deps;
  const writer = new UsageWriter({ usage, flushInterval, waitingLimit, onWritten, onLost, logger });
  const collection = durableCollection(usage);

  /** Closes the records of calls whose process died, marked as estimated; resolves to how many. */
  async function sweep(): Promise<number> {
    const before = { $subtract: ['$$NOW', longestCall + clockMargin] };
    const { modifiedCount } = await usage.updateMany(
      { ending: null, $expr: { $lt: ['$startedAt', before] } },
      [
        {
          $set: {
            ending: 'orphaned',
            estimated: true,
            durationMs: { $subtract: ['$$NOW', '$startedAt'] },
            counted: false,
          },
        },
      ],
      { updatePipeline: true },
    );
    return modifiedCount;
  }

  const sweeping = createPeriodic({
    name: 'the sweep for orphaned calls',
    task: sweep,
    interval: sweepInterval,
    logger,
  });

  return {
    /** Call it when a call is sent to an upstream. */
    opened: (usage: OpenUsage): void => writer.open(withinLimit(usage)),
    /** Call it when the answer of a call has ended. */
    closed: (record: UsageRecord): void => writer.close(withinLimit(record)),
    /** Call it when a call got no answer, so that there is nothing to record. */
    dropped: (id: string): void => writer.drop(id),
    /** Writes the record of a call that has ended, and leaves one of its id that is closed as it is. Resolves when it is durable. */
    async recordOnce(given: UsageRecord): Promise<void> {
      const record = withinLimit(given);
      const result = await collection.updateOne({ _id: record.id }, closing(record), { upsert: true });
      // what this call has written is certainly not counted yet
      if (result.modifiedCount + result.upsertedCount > 0) onWritten([toClosedDocument(record)]);
    },
    sweep,
    /** Sweeps from now on. */
    start: sweeping.start,
    /** Stops sweeping, and writes the records that wait. */
    async close(): Promise<void> {
      await sweeping.stop();
      await writer.end();
    },
  };
}
