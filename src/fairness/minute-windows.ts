const minute = 60_000;

/** Milliseconds until the next minute begins. */
export function untilNextMinute(now: number): number {
  return minute - (now % minute);
}

/**
 * A counter for each key in the current minute; the mechanism of all rate limits that refuse. The counters of earlier minutes are dropped at once,
 * so the callers of one minute limit the memory.
 */
export class MinuteWindows<Counter> {
  readonly #create: (key: string, minute: number) => Counter;
  #minute = 0;
  #counters = new Map<string, Counter>();

  /** @param create begins a counter. @param minute minutes since the time that {@link of} counts from */
  constructor(create: (key: string, minute: number) => Counter) {
    this.#create = create;
  }

  /** @param now milliseconds since a fixed time */
  of(key: string, now: number): Counter {
    const present = Math.floor(now / minute);
    if (present !== this.#minute) {
      this.#minute = present;
      this.#counters = new Map();
    }
    let counter = this.#counters.get(key);
    if (counter === undefined) {
      counter = this.#create(key, present);
      this.#counters.set(key, counter);
    }
    return counter;
  }

  /** The counters of the current minute. */
  values(): Iterable<Counter> {
    return this.#counters.values();
  }
}
