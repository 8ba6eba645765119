/**
 * Does this while a clock stands still, so that all of it falls into one minute, window or day, however long it takes: `Date.now()`,
 * or that of `performance`, by which durations are measured. Time passes there by what `pass` is called with alone. The timers and the database's
 * clock run on.
 * @param at where it stands. @default where it is
 */
export async function whileClockStands<T>(
  work: (pass: (milliseconds: number) => void) => T | Promise<T>,
  clock: { now(): number } = Date,
  at = clock.now(),
): Promise<T> {
  const { now } = clock;
  let shown = at;
  try {
    clock.now = () => shown;
    return await work((milliseconds) => {
      shown += milliseconds;
    });
  } finally {
    clock.now = now;
  }
}

/** Less than the gateway waits for an answer of its database, by timers. With them held, it waits as long as a busy machine takes. Milliseconds. */
export const leastDatabaseWait = 1_200;

type Start = (end: (...args: unknown[]) => void, delay?: number, ...args: unknown[]) => NodeJS.Timeout;

interface HeldTimer {
  readonly delay: number;
  readonly dueAt: number;
  /** Whether one that was held has set it as it ended. */
  readonly follows: boolean;
  end(): void;
}

/**
 * Time that passes when a test says so: from when it is made to its release, a long global timer ends only when the clock is turned past
 * it, however busy the machine is. `performance.now()` runs on, and is as far ahead as the clock was turned. It holds none of
 * `node:timers/promises`, of `setInterval`, of `AbortSignal` and of undici.
 */
export class HeldClock {
  readonly #now = performance.now.bind(performance);
  readonly #setTimeout = globalThis.setTimeout;
  readonly #clearTimeout = globalThis.clearTimeout;
  readonly #held = new Map<NodeJS.Timeout, HeldTimer>();
  /** Held timers whose time has passed outside. */
  readonly #late = new Set<NodeJS.Timeout>();
  #ahead = 0;
  #isEnding = false;
  #isReleased = false;
  /** Timers of so many milliseconds or more are held, from now on. */
  heldFrom: number;

  constructor(heldFrom: number) {
    this.heldFrom = heldFrom;
    performance.now = () => this.#now() + this.#ahead;
    const start: Start = (end, delay = 0, ...args) =>
      delay >= this.heldFrom || this.#isEnding
        ? this.#hold(() => end(...args), delay)
        : (this.#setTimeout as Start)(end, delay, ...args);
    globalThis.setTimeout = Object.assign(start, this.#setTimeout) as typeof setTimeout;
    globalThis.clearTimeout = (timer) => {
      this.#held.delete(timer as NodeJS.Timeout);
      this.#clearTimeout(timer);
    };
  }

  #hold(end: () => void, delay: number): NodeJS.Timeout {
    // a timer as others are, for `unref`, and for when time passes by itself again
    const timer: NodeJS.Timeout = (this.#setTimeout as Start)(
      () => (this.#isReleased ? end() : this.#late.add(timer)),
      delay,
    );
    const refresh = timer.refresh.bind(timer);
    const follows = this.#isEnding;
    const note = () => this.#held.set(timer, { delay, dueAt: performance.now() + delay, follows, end });
    timer.refresh = () => {
      note();
      return refresh();
    };
    note();
    return timer;
  }

  #end(timer: NodeJS.Timeout, { end }: HeldTimer): void {
    clearTimeout(timer);
    this.#isEnding = true;
    try {
      end();
    } finally {
      this.#isEnding = false;
    }
  }

  /**
   * Lets so many milliseconds pass, and ends in their order the timers that are due by then.
   * @param shortest those of fewer milliseconds stay held, unless one that ends has set them. @default none does
   */
  turn(milliseconds: number, shortest = 0): void {
    const target = performance.now() + milliseconds;
    for (;;) {
      const turned = [...this.#held].filter(([, { delay, follows }]) => follows || delay >= shortest);
      const [next] = turned.sort(([, a], [, b]) => a.dueAt - b.dueAt);
      if (!next || next[1].dueAt > target) break;
      this.#ahead = Math.max(this.#ahead, next[1].dueAt - this.#now());
      this.#end(...next);
    }
    this.#ahead = Math.max(this.#ahead, target - this.#now());
  }

  /** Has so many milliseconds be gone, as for a process that was stopped: what was due meanwhile is late, and comes before what has arrived is read. */
  skip(milliseconds: number): void {
    this.#ahead += milliseconds;
    const late = [...this.#held].filter(([, { dueAt }]) => dueAt <= performance.now());
    for (const [timer, held] of late.sort(([, a], [, b]) => a.dueAt - b.dueAt)) {
      if (this.#held.get(timer) === held) this.#end(timer, held);
    }
  }

  /** Time passes by itself again. */
  release(): void {
    this.#isReleased = true;
    performance.now = this.#now;
    globalThis.setTimeout = this.#setTimeout;
    globalThis.clearTimeout = this.#clearTimeout;
    for (const timer of this.#late) {
      const held = this.#held.get(timer);
      if (held) setImmediate(held.end);
    }
    this.#held.clear();
  }
}
