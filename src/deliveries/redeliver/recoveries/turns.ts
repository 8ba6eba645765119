import type { RecoveryDocument } from './model.ts';
import type { RecoveryStore } from './recovery-store.ts';

/** Recoveries that one process runs at once. */
const concurrency = 4;
/** How long a recovery runs while others wait. Milliseconds. */
const turn = 5_000;

/** A recovery that this process runs. */
export interface RunningRecovery {
  readonly userId: string;
  /** By `performance.now()`. */
  readonly startedAt: number;
  readonly leave: AbortController;
}

/**
 * Decides which recovery runs next: one of each account first. Further places may go to accounts that already have one, except
 * for the last place, which is kept for the next account. If no place is left, an account's second recovery leaves at
 * once, and any other one after its turn. It stops counting at once, and leaves when its attempts in flight have ended.
 */
export class RecoveryTurns {
  readonly #store: Pick<RecoveryStore, 'take' | 'hasWaiting'>;
  readonly #running = new Set<RunningRecovery>();

  constructor(store: Pick<RecoveryStore, 'take' | 'hasWaiting'>) {
    this.#store = store;
  }

  /** Notes that a recovery was taken. */
  begin(userId: string): RunningRecovery {
    const running = { userId, startedAt: performance.now(), leave: new AbortController() };
    this.#running.add(running);
    return running;
  }

  end(running: RunningRecovery): void {
    this.#running.delete(running);
  }

  /** Takes the next recovery; `null` if none waits or there is no room. */
  async next(): Promise<RecoveryDocument | null> {
    await this.#makeRoom();
    const accounts = this.#accounts();
    if (this.#active().length >= concurrency) return null;
    const recovery = await this.#store.take(accounts);
    if (recovery || accounts.length === 0 || this.#active().length >= concurrency - 1) return recovery;
    return this.#store.take([]);
  }

  #active(): RunningRecovery[] {
    return [...this.#running].filter(({ leave }) => !leave.signal.aborted);
  }

  #accounts(): string[] {
    return [...new Set(this.#active().map(({ userId }) => userId))];
  }

  async #makeRoom(): Promise<void> {
    const active = this.#active();
    if (active.length < concurrency - 1) return;
    const overdue = active.find(({ startedAt }) => performance.now() - startedAt >= turn);
    const second = active.find((running, i) => active.some(({ userId }, j) => j < i && userId === running.userId));
    if (await this.#store.hasWaiting(this.#accounts())) {
      if (active.length >= concurrency) (second ?? overdue)?.leave.abort();
    } else if (overdue && (await this.#store.hasWaiting([]))) {
      overdue.leave.abort();
    }
  }
}
