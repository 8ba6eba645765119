const minute = 60_000;

/** What one key or account has used in one minute. */
export class MinuteCounter {
  /** By this process. */
  requests = 0;
  /** By this process; while a call runs, its estimate. */
  tokens = 0;
  /** By all other processes, as of the last exchange. */
  others = { requests: 0, tokens: 0 };
  /** Whether a call has used it since the last exchange. */
  touched = true;

  /**
   * @param subject `key:<key id>` or `user:<user id>`
   * @param minute minutes since 1970
   */
  constructor(
    readonly subject: string,
    readonly minute: number,
  ) {}

  used(kind: 'requests' | 'tokens'): number {
    return this[kind] + this.others[kind];
  }
}

/** Milliseconds until the next minute begins. Pure. */
export function untilNextMinute(now: number): number {
  return minute - (now % minute);
}

/** The counters of the current minute. Earlier ones are dropped at once, so the callers of one minute limit the memory. */
export class MinuteCounters {
  #minute = 0;
  #counters = new Map<string, MinuteCounter>();

  of(subject: string, now: number): MinuteCounter {
    const present = Math.floor(now / minute);
    if (present !== this.#minute) {
      this.#minute = present;
      this.#counters = new Map();
    }
    let counter = this.#counters.get(subject);
    if (!counter) {
      counter = new MinuteCounter(subject, present);
      this.#counters.set(subject, counter);
    }
    counter.touched = true;
    return counter;
  }

  /** The counters that calls have used since the last call of this function. */
  takeTouched(): MinuteCounter[] {
    const touched = [...this.#counters.values()].filter((counter) => counter.touched);
    for (const counter of touched) counter.touched = false;
    return touched;
  }
}
