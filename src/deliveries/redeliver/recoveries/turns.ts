import type { RecoveryDocument } from './model.ts';
import type { RecoveryStore } from './recovery-store.ts';

/** Recoveries carried on by one process at once. */
const atOnce = 4;
/** How long a recovery goes on while others wait. Milliseconds. */
const turn = 5_000;

/** A recovery that this process carries on. */
export interface RunningRecovery {
  readonly userId: string;
  /** By `performance.now()`. */
  readonly startedAt: number;
  readonly leave: AbortController;
}

/**
 * Which recovery is carried on next: one of each account first. What is left may go to an account that has one already, but
 * for one place, which is kept for the next account. Where there is none left, a second one of an account makes room at
 * once, and any other one after its turn. It leaves as soon as its attempts in flight have ended, and counts no more.
 */
export class RecoveryTurns {
  readonly #store: Pick<RecoveryStore, 'take' | 'hasWaiting'>;
  readonly #running = new Set<RunningRecovery>();

  constructor(store: Pick<RecoveryStore, 'take' | 'hasWaiting'>) {
    this.#store = store;
  }

  /** Notes one that was taken. */
  begin(userId: string): RunningRecovery {
    const running = { userId, startedAt: performance.now(), leave: new AbortController() };
    this.#running.add(running);
    return running;
  }

  end(running: RunningRecovery): void {
    this.#running.delete(running);
  }

  /** Takes the next one; `null` when there is none, or no room for it. */
  async next(): Promise<RecoveryDocument | null> {
    await this.#makeRoom();
    const accounts = this.#accounts();
    if (this.#active().length >= atOnce) return null;
    const taken = await this.#store.take(accounts);
    if (taken || accounts.length === 0 || this.#active().length >= atOnce - 1) return taken;
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
    if (active.length < atOnce - 1) return;
    const overdue = active.find(({ startedAt }) => performance.now() - startedAt >= turn);
    const second = active.find((one, i) => active.some(({ userId }, j) => j < i && userId === one.userId));
    if (await this.#store.hasWaiting(this.#accounts())) {
      if (active.length >= atOnce) (second ?? overdue)?.leave.abort();
    } else if (overdue && (await this.#store.hasWaiting([]))) {
      overdue.leave.abort();
    }
  }
}
