import { answered } from '../answered.ts';
import type { OpenUsage, UsageRecord } from '../options.ts';
import type { ClosedDocument, Entry, WriteUsage } from './writes.ts';

export interface JournalDeps {
  readonly write: WriteUsage;
  /** How long records are gathered, in milliseconds; what a kill loses is at most what came in during that and one write. */
  readonly interval: number;
  /** The most records that wait while the database is away; the oldest are lost beyond. */
  readonly limit: number;
  /** Told of records that have ended and were written, each once. */
  readonly onWritten: (records: readonly ClosedDocument[]) => void;
  readonly onFailure: (error: unknown, lost: number) => void;
}

/**
 * Writes usage records in batches, so that a call costs a share of a round trip and never waits for one.
 * A call that ends before its open record was written is written once.
 */
export class UsageJournal {
  readonly #deps: JournalDeps;
  #pending = new Map<string, Entry>();
  /** What was sent, and may have been written although the database did not say so. */
  #unsure = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  constructor(deps: JournalDeps) {
    this.#deps = deps;
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
    // whoever waited beside may have begun another write
    while (this.#writing) await this.#writing;
    if (this.#pending.size === 0) return;
    this.#writing = this.#write().finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.flush(), this.#deps.interval);
  }

  async #write(): Promise<void> {
    const batch = this.#pending;
    this.#pending = new Map();
    let written: ClosedDocument[];
    try {
      written = await answered(this.#deps.write(batch, this.#unsure));
      this.#unsure = new Set();
    } catch (error) {
      this.#unsure = new Set(batch.keys());
      this.#deps.onFailure(error, this.#takeBack(batch));
      return;
    }
    this.#deps.onWritten(written);
  }

  /** Puts a batch that failed before what has come since. @returns how many records had to be given up */
  #takeBack(batch: Map<string, Entry>): number {
    for (const [id, entry] of this.#pending) batch.set(id, entry);
    this.#pending = batch;
    let lost = 0;
    for (const id of batch.keys()) {
      if (batch.size <= this.#deps.limit) break;
      batch.delete(id);
      lost += 1;
    }
    this.#schedule();
    return lost;
  }
}
