import type { Arrival } from '../receivers.ts';

/** When something was broken. Milliseconds since 1970. */
export interface Disturbance {
  readonly from: number;
  readonly to: number;
  /** Whether it can have cost a delivery one record at most: whoever dies had one attempt of it in flight. */
  readonly once: boolean;
  /** By how much the database's clock may have been wrong, by which everything is due and recorded. Milliseconds. @default 0 */
  readonly clockOff?: number;
}

/** When the clocks of workers were wrong, and by which milliseconds. Milliseconds since 1970 by the suite's own clock. */
export interface Skew {
  readonly from: number;
  readonly to: number;
  readonly by: readonly number[];
}

/** When a worker was stopped. Milliseconds since 1970. */
export interface Stop {
  readonly pid: number;
  readonly from: number;
  readonly to: number;
}

/** How late the suite may hear of a worker's death. Milliseconds. */
const reaction = 1_000;
/** An attempt may arrive so long after its worker died: the bytes were on their way. Milliseconds. */
const onTheWay = 500;
/** An attempt that was answered is recorded by then, when nothing is broken. Milliseconds. */
const recordedWithin = 3_000;

/** How long a primary may have been silent before another took its place. Milliseconds. */
const election = 10_000;

/** What was broken in one row, and when. */
export function createDisturbances() {
  const all: Disturbance[] = [];
  const skews: Skew[] = [];
  const stops: Stop[] = [];

  /** Calls `note` with when this ran. */
  async function timed(run: () => Promise<void>, note: (time: { from: number; to: number }) => void): Promise<void> {
    const from = Date.now();
    try {
      await run();
    } finally {
      note({ from, to: Date.now() });
    }
  }

  return {
    all,
    skews,
    stops,
    /** A worker has just died without a chance to record anything. */
    died(): void {
      const now = Date.now();
      all.push({ from: now - reaction, to: now, once: true });
    },
    /** The primary has changed, asked to or not: on a busy machine, members miss each other's heartbeats. */
    elected(): void {
      const now = Date.now();
      all.push({ from: now - election, to: now, once: false });
    },
    /** The clocks of workers are wrong by so many ms while this runs. */
    skewed: (by: readonly number[], run: () => Promise<void>) => timed(run, (time) => void skews.push({ ...time, by })),
    /** The database is not itself while this runs. */
    during: (breaking: () => Promise<void>, clockOff = 0) =>
      timed(breaking, (time) => void all.push({ ...time, once: false, clockOff })),
    /** This worker is stopped for a part of the time in which this runs. */
    stopped: (pid: number, run: () => Promise<void>) =>
      timed(run, (time) => {
        all.push({ ...time, once: false });
        stops.push({ ...time, pid });
      }),
  };
}

export type Disturbances = ReturnType<typeof createDisturbances>;

/**
 * How long after the database's clock was set gateways may still count from what they have read of it before. What begins a lease by such a
 * reading may begin one that has lapsed. Milliseconds.
 */
const readingValid = 10_000;

function hits({ from, to, clockOff = 0 }: Disturbance, { at, answeredAt }: Arrival): boolean {
  const ended = Number.isFinite(answeredAt) ? answeredAt : at;
  const feltUntil = clockOff > 0 ? to + readingValid : to;
  return from <= ended + recordedWithin && feltUntil >= at - onTheWay;
}

/** By how much the recorded times of a delivery may be wrong that arrived so: what was put off by a wrong clock comes as late. */
export function clockOffOf(came: readonly Arrival[], disturbances: readonly Disturbance[]): number {
  const met = disturbances.filter(({ from, to, clockOff = 0 }) =>
    came.some((arrival) => hits({ from, to: to + clockOff, once: false }, arrival)),
  );
  return Math.max(0, ...met.map(({ clockOff = 0 }) => clockOff));
}

/**
 * How many of a delivery's arrivals can have stayed unrecorded: those in flight when something was broken, and no more for
 * each death than one. A largest matching of arrivals with deaths, by augmenting paths.
 */
export function excusable(came: readonly Arrival[], disturbances: readonly Disturbance[]): number {
  const deaths = disturbances.filter(({ once }) => once);
  const byDeath = new Map<Disturbance, Arrival>();

  function match(arrival: Arrival, tried: Set<Disturbance>): boolean {
    for (const death of deaths) {
      if (tried.has(death) || !hits(death, arrival)) continue;
      tried.add(death);
      const other = byDeath.get(death);
      if (other && !match(other, tried)) continue;
      byDeath.set(death, arrival);
      return true;
    }
    return false;
  }

  return came.filter(
    (arrival) => disturbances.some((one) => !one.once && hits(one, arrival)) || match(arrival, new Set()),
  ).length;
}
