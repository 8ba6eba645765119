import { modelNameLimit } from '../ids.ts';
import { createSetAsideLog, isItemFailure, writeIsolated } from '../mongo/batcher.ts';
import { durableCollection } from '../mongo/collection.ts';
import { createPeriodic, type Periodic } from '../mongo/periodic.ts';
import type { Logger, OpenUsage, UsageRecord } from '../options/options.ts';
import { PendingWork } from '../pending-work.ts';
import type { CreditService } from './credits.ts';
import type { UsageDocument, UsageModel } from './model.ts';
import type { CountedRecord } from './sums.ts';

/** What has to be written of one call. */
type UsageWrite =
  | { readonly kind: 'open'; readonly usage: OpenUsage }
  | { readonly kind: 'closed'; readonly document: ClosedDocument; readonly unopened: boolean }
  | { readonly kind: 'dropped' };

/** The record of an ended call, as it is stored. */
type ClosedDocument = ReturnType<typeof toClosedDocument>;

type BulkOperation = Parameters<ReturnType<typeof durableCollection<UsageDocument>>['bulkWrite']>[0][number];

/** The most records of one write, so that a long backlog does not become one write that takes too long. */
const batchSize = 2_000;

/** Of writes that do not depend on each other. */
const unordered = { ordered: false } as const;

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
  /** Told of each record of an ended call before it is written, and of those that will not be; says which process they are of. @default nothing is charged */
  readonly charging?: Pick<CreditService, 'recorded' | 'lost'>;
}

/** How often a process looks for orphaned records. Milliseconds. */
const sweepInterval = 60_000;

/**
 * Records what model calls use: one record for each call, open while it runs. Writes records in batches, so that a call costs a share of a
 * round trip and never waits for one. If a call ends before its open record is written, only the closed record is written.
 */
export class UsageService {
  readonly #deps: UsageServiceDeps;
  readonly #collection: ReturnType<typeof durableCollection<UsageDocument>>;
  readonly #logSetAside: ReturnType<typeof createSetAsideLog>;
  readonly #sweeping: Periodic;
  /** What waits, and what is being written: it stays until the database has accepted it, unless something newer takes its place. */
  readonly #pending = new Map<string, UsageWrite>();
  /** Records that were sent, and may be written although the database has not confirmed it, until their calls have ended. */
  readonly #unsure = new Set<string>();
  /** The writes that were given up, and may still arrive. */
  readonly #late = new PendingWork();
  /** The records of the write under way. */
  #sent: ReadonlySet<string> = new Set();
  /**
   * Where the oldest entry that may be lost is looked for: behind those of the write under way, which come first. Looked for from the start, a call
   * beyond the limit takes 83 to 129 µs while a write hangs, in place of 11 to 38 (five turns of 3,000 calls, 2,000 records in the write).
   */
  #oldest: MapIterator<[string, UsageWrite]> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #nextWriting: Promise<void> | undefined;
  #isClosed = false;
  /** Whether the database did not accept the last write. */
  #isFailing = false;
  /** How many records are lost since the last write that the database accepted. */
  #lost = 0;

  constructor(deps: UsageServiceDeps) {
    const { usage, logger } = deps;
    this.#deps = deps;
    this.#collection = durableCollection(usage);
    this.#logSetAside = createSetAsideLog(logger, 'usage records cannot be written and are not counted');
    this.#sweeping = createPeriodic({
      name: 'the sweep for orphaned calls',
      task: this.sweep,
      interval: sweepInterval,
      logger,
    });
  }

  /** Call it when a call is sent to an upstream. */
  readonly opened = (usage: OpenUsage): void => this.#add(usage.id, { kind: 'open', usage });

  /** Call it when the answer of a call has ended. */
  readonly closed = (record: UsageRecord): void => {
    const { id } = record;
    const unopened = this.#isUnsent(id);
    const holder = this.#deps.charging?.recorded(record);
    this.#add(id, { kind: 'closed', document: toClosedDocument(record, holder), unopened });
  };

  /** Call it when a call got no answer, so that there is nothing to record. May be called again. */
  readonly dropped = (id: string): void => {
    // where its open record was never sent, there is nothing to delete
    if (this.#isUnsent(id) && !this.#unsure.has(id)) this.#pending.delete(id);
    else this.#add(id, { kind: 'dropped' });
  };

  /** Whether its open record waits, and is not in the write under way. */
  readonly #isUnsent = (id: string) => this.#pending.get(id)?.kind === 'open' && !this.#sent.has(id);

  /** Writes the record of a call that has ended, and leaves one of its id that is closed as it is. Resolves when it is durable. */
  readonly recordOnce = async (record: UsageRecord): Promise<void> => {
    const document = toClosedDocument(record);
    const { filter, update, upsert } = closeOnce(document);
    const { modifiedCount, upsertedCount } = await this.#collection.updateOne(filter, update, { upsert });
    // what this call has written is certainly not counted yet
    if (modifiedCount + upsertedCount > 0) this.#deps.onWritten?.([document]);
  };

  /** Closes the records of calls whose process died, marked as estimated; resolves to how many. */
  readonly sweep = async (): Promise<number> => {
    const { longestCall, clockMargin = 60_000 } = this.#deps;
    const before = { $subtract: ['$$NOW', longestCall + clockMargin] };
    const durationMs = { $subtract: ['$$NOW', '$startedAt'] };
    const orphaned = { ending: 'orphaned', estimated: true, durationMs, counted: false };
    const { modifiedCount } = await this.#collection.updateMany(
      { ending: null, $expr: { $lt: ['$startedAt', before] } },
      [{ $set: orphaned }],
    );
    return modifiedCount;
  };

  /** Sweeps from now on. */
  start(): void {
    this.#sweeping.start();
  }

  /** Stops sweeping, and writes the records that wait. From now on, those that the database does not accept no longer keep the process alive. */
  async close(): Promise<void> {
    await this.#sweeping.stop();
    this.#isClosed = true;
    await this.#flush();
  }

  /**
   * Writes all entries; resolves when they are written or the database has refused them. All that ask while a write is under way wait for one
   * write after it: under a load whose writes take longer than the interval, they would otherwise become more and more.
   */
  #flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#writing) {
      this.#nextWriting ??= this.#writing.finally(() => {
        this.#nextWriting = undefined;
        return this.#flush();
      });
      return this.#nextWriting;
    }
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.#flush(), this.#deps.flushInterval ?? 50);
    if (this.#isClosed) this.#timer.unref();
  }

  #add(id: string, entry: UsageWrite): void {
    this.#pending.set(id, entry);
    this.#forgetOldest();
    this.#schedule();
  }

  async #writeAll(): Promise<void> {
    while (this.#pending.size > 0) {
      const batch: (readonly [string, UsageWrite])[] = [];
      for (const entry of this.#pending) {
        if (batch.length === batchSize) break;
        batch.push(entry);
      }
      this.#sent = new Set(batch.map(([id]) => id));
      this.#oldest = undefined;
      const isWritten = await this.#write(batch);
      if (isWritten) continue;
      this.#forgetOldest();
      this.#schedule();
      return;
    }
  }

  /** @returns whether the database has accepted all of it */
  async #write(entries: readonly (readonly [string, UsageWrite])[]): Promise<boolean> {
    const written: ClosedDocument[] = [];
    let writing: Promise<ClosedDocument[]> | undefined;
    const outcomes = await writeIsolated(entries, {
      write: async (part, isFirstTry) => {
        writing = this.#writePart(part, isFirstTry);
        written.push(...(await writing));
        return [];
      },
    });
    this.#sent = new Set();
    this.#oldest = undefined;
    let failure: { readonly error: unknown } | undefined;
    for (const [i, [id, entry]] of entries.entries()) {
      const outcome = outcomes[i];
      const error = outcome && 'error' in outcome ? outcome : undefined;
      if (error && !isItemFailure(error.error)) {
        failure = error;
        this.#unsure.add(id);
        continue;
      }
      // its open record, if a write of that was given up, may arrive behind this
      const mayReturn = entry.kind !== 'open' && this.#unsure.delete(id) && entry.kind === 'dropped';
      if (mayReturn) void this.#late.done().then(() => this.#add(id, entry));
      if (this.#pending.get(id) === entry) this.#pending.delete(id);
      if (!error) continue;
      this.#logSetAside(error.error, { id });
      if (entry.kind === 'closed') this.#deps.charging?.lost(entry.document);
    }
    if (failure && writing) this.#late.add(writing);
    this.#logOutcome(failure);
    if (written.length > 0) this.#deps.onWritten?.(written);
    return !failure;
  }

  /**
   * Writes entries. Those that may be written already are written in a way that does no harm the second time.
   * @returns the closed records that are in the database now, and certainly not counted yet
   */
  async #writePart(
    entries: readonly (readonly [string, UsageWrite])[],
    isFirstTry: boolean,
  ): Promise<ClosedDocument[]> {
    const opened: UsageDocument[] = [];
    const ended: ClosedDocument[] = [];
    const ending: ClosedDocument[] = [];
    const others: BulkOperation[] = [];
    for (const [id, entry] of entries) {
      if (!isFirstTry || this.#unsure.has(id) || entry.kind === 'dropped') others.push(toRepeatable(id, entry));
      else if (entry.kind === 'open') opened.push(toOpenDocument(entry.usage));
      else (entry.unopened ? ended : ending).push(entry.document);
    }
    if (opened.length + ended.length > 0) await this.#collection.insertMany([...opened, ...ended], unordered);
    // closes what is open, and leaves what is closed as it is
    const closings = ending.map((document) => ({
      updateOne: { filter: { _id: document._id, ending: null }, update: { $set: document } },
    }));
    const matched = closings.length > 0 ? (await this.#collection.bulkWrite(closings, unordered)).matchedCount : 0;
    // some were closed as orphans, or never opened, and it is unknown which
    const isUncertain = matched < ending.length;
    if (isUncertain) others.push(...ending.map((document) => ({ updateOne: closeOnce(document) })));
    if (others.length > 0) await this.#collection.bulkWrite(others, unordered);
    return isUncertain ? ended : [...ended, ...ending];
  }

  /** Logs once that usage records cannot be written, and how many are lost when the database is back. */
  #logOutcome(failure: { readonly error: unknown } | undefined): void {
    const { logger } = this.#deps;
    if (failure && !this.#isFailing) {
      logger.error('usage records could not be written and will be tried again', { reason: String(failure.error) });
    }
    if (!failure && (this.#isFailing || this.#lost > 0)) {
      logger.warn('usage records are written again', { lost: this.#lost });
    }
    this.#isFailing = failure !== undefined;
    if (!failure) this.#lost = 0;
  }

  #forgetOldest(): void {
    const { waitingLimit = 100_000, logger } = this.#deps;
    while (this.#pending.size > waitingLimit) {
      this.#oldest ??= this.#pending.entries();
      const { done, value } = this.#oldest.next();
      if (done) {
        this.#oldest = undefined;
        return;
      }
      const [id, entry] = value;
      // it is being written; if it is the end of a call whose open record is, it must not get lost
      if (this.#sent.has(id)) continue;
      this.#pending.delete(id);
      if (entry.kind !== 'open') this.#unsure.delete(id);
      // a call that still runs is recorded again when it ends
      if (entry.kind !== 'closed') continue;
      if (this.#lost === 0) logger.error('more usage records wait than are kept: the oldest are lost');
      this.#lost += 1;
      this.#deps.charging?.lost(entry.document);
    }
  }
}

function toOpenDocument({ id: _id, model, ...usage }: OpenUsage): UsageDocument {
  return {
    _id,
    model: model?.slice(0, modelNameLimit) ?? null,
    cachedInputTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    images: 0,
    estimated: true,
    ending: null,
    durationMs: 0,
    firstByteMs: 0,
    ...usage,
  };
}

/** Field by field: a spread followed by more fields makes a dictionary, which adds 4 KB to the 71 KB that a call allocates. */
function toClosedDocument(record: UsageRecord, holder?: string) {
  return {
    _id: record.id,
    requestId: record.requestId,
    userId: record.userId,
    keyId: record.keyId,
    endpoint: record.endpoint,
    // callers choose its name
    model: record.model?.slice(0, modelNameLimit) ?? null,
    upstream: record.upstream,
    inputTokens: record.inputTokens,
    cachedInputTokens: record.cachedInputTokens,
    cacheWriteTokens: record.cacheWriteTokens,
    cacheWriteHourTokens: record.cacheWriteHourTokens,
    outputTokens: record.outputTokens,
    reasoningTokens: record.reasoningTokens,
    inputAudioTokens: record.inputAudioTokens,
    cachedInputAudioTokens: record.cachedInputAudioTokens,
    outputAudioTokens: record.outputAudioTokens,
    images: record.images,
    imageModels: record.imageModels,
    webSearchCalls: record.webSearchCalls,
    fileSearchCalls: record.fileSearchCalls,
    codeInterpreterCalls: record.codeInterpreterCalls,
    seconds: record.seconds,
    characters: record.characters,
    units: record.units,
    stored: record.stored,
    estimated: record.estimated,
    ending: record.ending,
    startedAt: record.startedAt,
    durationMs: record.durationMs,
    firstByteMs: record.firstByteMs,
    counted: false,
    holder,
  } satisfies UsageDocument;
}

/** Stores the record of an ended call, whether or not it is open; one that is closed stays as it is. */
function closeOnce(document: ClosedDocument) {
  const closed = { $mergeObjects: ['$$ROOT', { $literal: document }] };
  const update = [{ $replaceWith: { $cond: [{ $gt: ['$ending', null] }, '$$ROOT', closed] } }];
  return { filter: { _id: document._id }, update, upsert: true };
}

function toRepeatable(_id: string, entry: UsageWrite): BulkOperation {
  switch (entry.kind) {
    case 'open':
      return { updateOne: { filter: { _id }, update: { $setOnInsert: toOpenDocument(entry.usage) }, upsert: true } };
    case 'closed':
      return { updateOne: closeOnce(entry.document) };
    case 'dropped':
      return { deleteOne: { filter: { _id, ending: null } } };
  }
}
