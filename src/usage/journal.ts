import type { OpenUsage, UsageRecord } from '../options.ts';
import type { UsageDocument, UsageModel } from './model.ts';

type ClosedFields = Omit<UsageDocument, '_id'>;
type Operation = Parameters<UsageModel['collection']['bulkWrite']>[0][number];

/** What is still to be written of one call. */
type Entry =
  | { readonly kind: 'open'; readonly usage: OpenUsage }
  | { readonly kind: 'closed'; readonly record: UsageRecord }
  | { readonly kind: 'dropped' };

function toOpenDocument({ id, ...usage }: OpenUsage): UsageDocument {
  return {
    _id: id,
    ...usage,
    outputTokens: 0,
    images: 0,
    estimated: true,
    ending: null,
    durationMs: 0,
    firstByteMs: 0,
  };
}

/** What has ended stays as it was counted: only an open record, or none, takes what is written. */
function closing({ id: _, ...record }: UsageRecord): object[] {
  const closed = { $mergeObjects: ['$$ROOT', { $literal: { ...record, counted: false } satisfies ClosedFields }] };
  const ended = { $gt: ['$ending', null] };
  return [{ $replaceWith: { $cond: [ended, '$$ROOT', closed] } }];
}

/** Each can be done twice without harm, so that a batch whose outcome is not known is sent again. */
function toOperation([id, entry]: [string, Entry]): Operation {
  // biome-ignore lint/suspicious/noExplicitAny: the driver's type of ids is ObjectId unless told otherwise
  const filter = { _id: id } as any;
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
  readonly #usage: UsageModel;
  readonly #interval: number;
  readonly #limit: number;
  readonly #onFailure: (error: unknown, lost: number) => void;
  #pending = new Map<string, Entry>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  /**
   * @param interval how long records are gathered, in milliseconds; what a kill loses is at most what came in during that and one write
   * @param limit the most records that wait while the database is away; the oldest are lost beyond
   */
  constructor(usage: UsageModel, interval: number, limit: number, onFailure: (error: unknown, lost: number) => void) {
    this.#usage = usage;
    this.#interval = interval;
    this.#limit = limit;
    this.#onFailure = onFailure;
  }

  open(usage: OpenUsage): void {
    this.#pending.set(usage.id, { kind: 'open', usage });
    this.#schedule();
  }

  close(record: UsageRecord): void {
    this.#pending.set(record.id, { kind: 'closed', record });
    this.#schedule();
  }

  /** Forgets a call that was not answered. */
  drop(id: string): void {
    // never written: nothing to take back
    if (this.#pending.delete(id)) return;
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
      await this.#usage.collection.bulkWrite([...batch].map(toOperation), { ordered: false });
    } catch (error) {
      this.#onFailure(error, this.#takeBack(batch));
    }
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
