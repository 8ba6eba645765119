import type { CountedRecord } from './sums.ts';

/** The most records that are kept; beyond, all of them are left to be found in the database. */
const most = 20_000;

/**
 * The records that this process has written and that wait to be counted, so that nearly none has to be read back. Only a
 * shortcut: the database knows which are counted.
 */
export class RecentUsage {
  #records: CountedRecord[] = [];
  #isTaken = false;

  /** Somebody will take them from now on. */
  open(): void {
    this.#isTaken = true;
  }

  add(records: readonly CountedRecord[]): void {
    if (!this.#isTaken) return;
    if (this.#records.length + records.length > most) this.#records = [];
    this.#records.push(...records);
  }

  /** The oldest, so many at most. */
  take(limit: number): CountedRecord[] {
    return this.#records.splice(0, limit);
  }
}
