import { isItemFailure, writeIsolated } from '../../mongo/batcher.ts';
import type { OpenUsage, UsageRecord } from '../../options/options.ts';
import type { ClosedDocument, UsageWrite, WriteUsage } from './write-batch.ts';

export interface UsageWriterDeps {
  readonly write: WriteUsage;
  /** How long records are gathered. A kill loses what arrives in this time and during one write. Milliseconds. */
  readonly interval: number;
  /** The most records in memory. If there are more, the oldest that wait are lost. */
  readonly limit: number;
  /** Called once with each record of an ended call that was written. */
  readonly onWritten: (records: readonly ClosedDocument[]) => void;
  /** Called with each record of an ended call that is lost. */
  readonly onLost: (record: UsageRecord) => void;
  readonly onFailure: (error: unknown) => void;
  /** Called when the database has accepted a whole batch. */
  readonly onSuccess: () => void;
  /** Called with each entry that cannot be written and was left out. */
  readonly onSetAside: (error: unknown, id: string, entry: UsageWrite) => void;
}

/** The most records of one write, so that a long backlog does not become one write that takes too long. */
const batchSize = 2_000;

/**
 * Writes usage records in batches, so that a call costs a share of a round trip and never waits for one. If a call ends before
 * its open record is written, only the closed record is written.
 */
export class UsageWriter {
  readonly #deps: UsageWriterDeps;
  #pending = new Map<string, UsageWrite>();
  /** Records that were sent, and may have been written although the database has not confirmed it. */
  #unsure = new Set<string>();
  /** The records of the write under way, and how many of them have no newer entry that waits. */
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

  /** Forgets a call that got no answer. */
  drop(id: string): void {
    // it was never written, so there is nothing to delete
    if (this.#pending.delete(id) && !this.#unsure.has(id)) return;
    this.#add(id, { kind: 'dropped' });
  }

  /** Writes all entries; resolves when they are written or the database has refused them. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // another caller that waited may have started the next write
    while (this.#writing) await this.#writing;
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  /** Writes all entries. From now on, those that the database does not accept no longer keep the process alive. */
  async end(): Promise<void> {
    this.#isClosed = true;
    await this.flush();
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.flush(), this.#deps.interval);
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
        written.push(...(await this.#deps.write(partEntries, isFirstTry ? unsure : new Set(partEntries.keys()))));
        return [];
      },
    });
    const failed = new Map<string, UsageWrite>();
    let failure: unknown;
    for (const [i, [id, entry]] of entries.entries()) {
      const outcome = outcomes[i];
      if (!outcome || 'result' in outcome) continue;
      if (isItemFailure(outcome.error)) {
        this.#deps.onSetAside(outcome.error, id, entry);
        continue;
      }
      failure = outcome.error;
      failed.set(id, entry);
    }
    for (const [id] of entries) {
      if (failed.has(id)) unsure.add(id);
      else unsure.delete(id);
    }
    this.#sent = new Set();
    this.#sentAlone = 0;
    this.#putBack(failed);
    if (failed.size > 0) this.#deps.onFailure(failure);
    else this.#deps.onSuccess();
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
    if (this.#pending.size + this.#sentAlone <= this.#deps.limit) return;
    for (const [id, entry] of this.#pending) {
      if (this.#pending.size + this.#sentAlone <= this.#deps.limit) return;
      // the open record of that call is being written, so its end must not get lost
      if (this.#sent.has(id)) continue;
      this.#pending.delete(id);
      this.#unsure.delete(id);
      // a call that still runs is recorded again when it ends
      if (entry.kind === 'closed') this.#deps.onLost(entry.record);
    }
  }
}
