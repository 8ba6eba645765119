const minute = 60_000;

/** What was let through of one key or account in one minute. */
export class MinuteCounter {
  /** By this process. */
  requests = 0;
  /** By this process; an estimate while a call runs. */
  tokens = 0;
  /** By all other processes, when they last told. */
  others = { requests: 0, tokens: 0 };
  /** Whether anything has asked for it since the last exchange. */
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

/** Milliseconds until the minute is over that `now` is in. Pure. */
export function untilNextMinute(now: number): number {
  return minute - (now % minute);
}

/** The counters of the present minute; those of the one before are forgotten at once, so memory is bounded by a minute's callers. */
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

  /** Those that have been asked for since this was last called. */
  takeTouched(): MinuteCounter[] {
    const touched = [...this.#counters.values()].filter((counter) => counter.touched);
    for (const counter of touched) counter.touched = false;
    return touched;
  }
}
