const minute = 60_000;

/** What was let through of one key or account in one minute. */
export class Tally {
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

/** The tallies of the present minute; those of the one before are forgotten at once, so memory is bounded by a minute's callers. */
export class Tallies {
  #minute = 0;
  #tallies = new Map<string, Tally>();

  of(subject: string, now: number): Tally {
    const present = Math.floor(now / minute);
    if (present !== this.#minute) {
      this.#minute = present;
      this.#tallies = new Map();
    }
    let tally = this.#tallies.get(subject);
    if (!tally) {
      tally = new Tally(subject, present);
      this.#tallies.set(subject, tally);
    }
    tally.touched = true;
    return tally;
  }

  /** Those that have been asked for since this was last called. */
  takeTouched(): Tally[] {
    const touched = [...this.#tallies.values()].filter((tally) => tally.touched);
    for (const tally of touched) tally.touched = false;
    return touched;
  }
}
