import { isItemFailure } from '../../mongo/writes/item-failure.ts';
import { writeIsolated } from '../../mongo/writes/write-isolated.ts';
import type { OpenUsage, UsageRecord } from '../../options/options.ts';
import type { ClosedDocument, Entry, WriteUsage } from './write-batch.ts';

export interface UsageWriterDeps {
  readonly write: WriteUsage;
  /** How long records are gathered, in milliseconds; what a kill loses is at most what came in during that and one write. */
  readonly interval: number;
  /** The most records in memory while the database is unavailable; beyond, the oldest of those that wait are lost. */
  readonly limit: number;
  /** Told of records that have ended and were written, each once. */
  readonly onWritten: (records: readonly ClosedDocument[]) => void;
  /** Told of each record of an ended call that is lost. */
  readonly onLost: (record: UsageRecord) => void;
  readonly onFailure: (error: unknown) => void;
  /** Told when the database took a whole batch. */
  readonly onSuccess: () => void;
  /** Told of what cannot be written, and is in nobody's way any more. */
  readonly onSetAside: (error: unknown, id: string, entry: Entry) => void;
}

/** The most records of one write: what has waited for long must not become one write that takes too long. */
const batchSize = 2_000;

/**
 * Writes usage records in batches, so that a call costs a share of a round trip and never waits for one.
 * A call that ends before its open record was written is written once.
 */
export class UsageWriter {
  readonly #deps: UsageWriterDeps;
  #pending = new Map<string, Entry>();
  /** What was sent, and may have been written although the database did not say so. */
  #unsure = new Set<string>();
  /** What is being written, and how many of that have nothing new that waits. */
  #sent: ReadonlySet<string> = new Set();
  #sentAlone = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #isClosed = false;

  constructor(deps: UsageWriterDeps) {
    this.#deps = deps;
  }

  open(usage: OpenUsage): void {
    this.#add(usage.id, { kind: 'open', usage });
  }

  close(record: UsageRecord): void {
    const unopened = this.#pending.get(record.id)?.kind === 'open';
    this.#add(record.id, { kind: 'closed', record, unopened });
  }

  /** Forgets a call that was not answered. */
  drop(id: string): void {
    // never written: nothing to take back
    if (this.#pending.delete(id) && !this.#unsure.has(id)) return;
    this.#add(id, { kind: 'dropped' });
  }

  /** Writes everything there is now; resolves when it is written or the database refused it. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // whoever waited beside may have begun another write
    while (this.#writing) await this.#writing;
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  /** Writes everything there is now; what the database does not take keeps the process from ending no longer. */
  async end(): Promise<void> {
    this.#isClosed = true;
    await this.flush();
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.flush(), this.#deps.interval);
    if (this.#isClosed) this.#timer.unref();
  }

  #add(id: string, entry: Entry): void {
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

  #takeBatch(): (readonly [string, Entry])[] {
    const batch: (readonly [string, Entry])[] = [];
    for (const entry of this.#pending) {
      if (batch.length === batchSize) break;
      batch.push(entry);
      this.#pending.delete(entry[0]);
    }
    return batch;
  }

  /** @returns whether the database took it */
  async #write(entries: readonly (readonly [string, Entry])[]): Promise<boolean> {
    this.#sent = new Set(entries.map(([id]) => id));
    this.#sentAlone = this.#sent.size;
    const unsure = this.#unsure;
    const written: ClosedDocument[] = [];
    const outcomes = await writeIsolated(entries, {
      write: async (part, isFirstTry) => {
        const partEntries = new Map(part);
        written.push(...(await this.#deps.write(partEntries, isFirstTry ? unsure : new Set(partEntries.keys()))));
        return [];
      },
    });
    const left = new Map<string, Entry>();
    let failure: unknown;
    for (const [i, [id, entry]] of entries.entries()) {
      const outcome = outcomes[i];
      if (!outcome || 'result' in outcome) continue;
      if (isItemFailure(outcome.error)) {
        this.#deps.onSetAside(outcome.error, id, entry);
        continue;
      }
      failure = outcome.error;
      left.set(id, entry);
    }
    for (const [id] of entries) {
      if (left.has(id)) unsure.add(id);
      else unsure.delete(id);
    }
    this.#sent = new Set();
    this.#sentAlone = 0;
    this.#takeBack(left);
    if (left.size > 0) this.#deps.onFailure(failure);
    else this.#deps.onSuccess();
    if (written.length > 0) this.#deps.onWritten(written);
    return left.size === 0;
  }

  /** Puts what failed before what has come since. */
  #takeBack(left: Map<string, Entry>): void {
    if (left.size === 0) return;
    for (const [id, entry] of this.#pending) left.set(id, entry);
    this.#pending = left;
    this.#forgetOldest();
    this.#schedule();
  }

  #forgetOldest(): void {
    if (this.#pending.size + this.#sentAlone <= this.#deps.limit) return;
    for (const [id, entry] of this.#pending) {
      if (this.#pending.size + this.#sentAlone <= this.#deps.limit) return;
      // the beginning of that call is being written: its end must not get lost
      if (this.#sent.has(id)) continue;
      this.#pending.delete(id);
      this.#unsure.delete(id);
      // a call that still runs is recorded when it ends
      if (entry.kind === 'closed') this.#deps.onLost(entry.record);
    }
  }
}
