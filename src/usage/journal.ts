import { durableCollection } from '../collection.ts';
import type { OpenUsage, UsageRecord } from '../options.ts';
import type { UsageDocument, UsageModel } from './model.ts';

type ClosedFields = Omit<UsageDocument, '_id'>;
type Operation = Parameters<ReturnType<typeof durableCollection<UsageDocument>>['bulkWrite']>[0][number];

/** What is still to be written of one call. */
type Entry =
  | { readonly kind: 'open'; readonly usage: OpenUsage }
  | { readonly kind: 'closed'; readonly record: UsageRecord; readonly unopened: boolean }
  | { readonly kind: 'dropped' };

function toOpenDocument({ id, ...usage }: OpenUsage): UsageDocument {
  return {
    _id: id,
    ...usage,
    cachedInputTokens: 0,
    outputTokens: 0,
    images: 0,
    estimated: true,
    ending: null,
    durationMs: 0,
    firstByteMs: 0,
  };
}

/** Field by field, for nearly every call has one made: a copied object that gets further fields costs many times as much. */
function toClosedDocument(record: UsageRecord): UsageDocument {
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
    images: record.images,
    estimated: record.estimated,
    ending: record.ending,
    startedAt: record.startedAt,
    durationMs: record.durationMs,
    firstByteMs: record.firstByteMs,
    counted: false,
  };
}

/** What has ended stays as it was counted: only an open record, or none, takes what is written. */
function closing({ id: _, ...record }: UsageRecord): object[] {
  const closed = { $mergeObjects: ['$$ROOT', { $literal: { ...record, counted: false } satisfies ClosedFields }] };
  const ended = { $gt: ['$ending', null] };
  return [{ $replaceWith: { $cond: [ended, '$$ROOT', closed] } }];
}

/** What nobody can have written before is inserted, which costs the database and this process least. */
function toInsertion(entry: Entry): Operation | undefined {
  if (entry.kind === 'open') return { insertOne: { document: toOpenDocument(entry.usage) } };
  if (entry.kind === 'closed' && entry.unopened) return { insertOne: { document: toClosedDocument(entry.record) } };
  return undefined;
}

/** Each can be done twice without harm, so that a batch whose outcome is not known is sent again. */
function toRepeatable(id: string, entry: Entry): Operation {
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

/**
 * Writes usage records in batches, so that a call costs a share of a round trip and never waits for one.
 * A call that ends before its open record was written is written once.
 */
export class UsageJournal {
  readonly #usage: ReturnType<typeof durableCollection<UsageDocument>>;
  readonly #interval: number;
  readonly #limit: number;
  readonly #onFailure: (error: unknown, lost: number) => void;
  #pending = new Map<string, Entry>();
  /** What was sent, and may have been written although the database did not say so. */
  #unsure = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  /**
   * @param interval how long records are gathered, in milliseconds; what a kill loses is at most what came in during that and one write
   * @param limit the most records that wait while the database is away; the oldest are lost beyond
   */
  constructor(usage: UsageModel, interval: number, limit: number, onFailure: (error: unknown, lost: number) => void) {
    this.#usage = durableCollection(usage);
    this.#interval = interval;
    this.#limit = limit;
    this.#onFailure = onFailure;
  }

  open(usage: OpenUsage): void {
    this.#pending.set(usage.id, { kind: 'open', usage });
    this.#schedule();
  }

  close(record: UsageRecord): void {
    const unopened = this.#pending.get(record.id)?.kind === 'open';
    this.#pending.set(record.id, { kind: 'closed', record, unopened });
    this.#schedule();
  }

  /** Forgets a call that was not answered. */
  drop(id: string): void {
    // never written: nothing to take back
    if (this.#pending.delete(id) && !this.#unsure.has(id)) return;
    this.#pending.set(id, { kind: 'dropped' });
    this.#schedule();
  }

  /** Writes everything there is now; resolves when it is written or the database refused it. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#writing;
    if (this.#pending.size === 0) return;
    this.#writing = this.#write().finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.flush(), this.#interval);
  }

  async #write(): Promise<void> {
    const batch = this.#pending;
    this.#pending = new Map();
    try {
      await this.#usage.bulkWrite(this.#toOperations(batch), { ordered: false });
      this.#unsure = new Set();
    } catch (error) {
      this.#unsure = new Set(batch.keys());
      this.#onFailure(error, this.#takeBack(batch));
    }
  }

  #toOperations(batch: Map<string, Entry>): Operation[] {
    const operations: Operation[] = [];
    for (const [id, entry] of batch) {
      const insertion = this.#unsure.has(id) ? undefined : toInsertion(entry);
      operations.push(insertion ?? toRepeatable(id, entry));
    }
    return operations;
  }

  /** Puts a batch that failed before what has come since. @returns how many records had to be given up */
  #takeBack(batch: Map<string, Entry>): number {
    for (const [id, entry] of this.#pending) batch.set(id, entry);
    this.#pending = batch;
    let lost = 0;
    for (const id of batch.keys()) {
      if (batch.size <= this.#limit) break;
      batch.delete(id);
      lost += 1;
    }
    this.#schedule();
    return lost;
  }
}
