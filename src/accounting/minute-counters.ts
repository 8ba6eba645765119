import { createSetAsideLog, itemFailures, writeIsolated } from '../mongo/batcher.ts';
import { createPeriodic } from '../mongo/periodic.ts';
import type { Logger } from '../options/options.ts';
import type { RateModel } from './model.ts';

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

/** How long a minute's counters are stored: longer than any process reads them. Milliseconds. */
const lifetime = 180_000;

export interface SharingDeps {
  readonly rates: RateModel;
  readonly counters: MinuteCounters;
  /** This process, `wrk_…`. */
  readonly owner: string;
  /** Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** Exchanges the counters with the other processes at every interval. */
export interface Sharing {
  /** Does nothing the second time. */
  start(): void;
  /** Exchanges them now: resolves with the others' counts as they were when it was called, or newer. */
  exchange(): Promise<void>;
  stop(): Promise<void>;
}

function idOf({ subject, minute }: MinuteCounter): string {
  return `${minute}:${subject}`;
}

/** Writes and reads only the counters used since the last exchange, in two commands no matter how many there are. */
export function createSharing({ rates, counters, owner, interval, logger }: SharingDeps): Sharing {
  const logSetAside = createSetAsideLog(logger, 'rate limits cannot be shared and count in this process alone');

  async function exchangePart(touched: readonly MinuteCounter[]): Promise<void> {
    const expiresAt = new Date(Date.now() + lifetime);
    await rates.bulkWrite(
      touched.map((counter) => ({
        updateOne: {
          filter: { _id: idOf(counter) },
          update: {
            $set: { [`used.${owner}`]: { requests: counter.requests, tokens: counter.tokens } },
            $setOnInsert: { expiresAt },
          },
          upsert: true,
        },
      })),
      { ordered: false },
    );
    const documents = await rates.find({ _id: { $in: touched.map(idOf) } }).lean();
    const byId = new Map(documents.map(({ _id, used }) => [_id, used]));
    for (const counter of touched) {
      const others = { requests: 0, tokens: 0 };
      for (const [process, { requests, tokens }] of Object.entries(byId.get(idOf(counter)) ?? {})) {
        if (process === owner) continue;
        others.requests += requests;
        others.tokens += tokens;
      }
      counter.others = others;
    }
  }

  async function exchange(): Promise<void> {
    const touched = counters.takeTouched();
    const outcomes = await writeIsolated(touched, {
      async write(part) {
        await exchangePart(part);
        return [];
      },
    });
    for (const [, error] of itemFailures(touched, outcomes)) logSetAside(error);
  }

  // when an exchange fails, each process continues with what it knows; the next exchange includes what this one missed
  const sharing = createPeriodic({ name: 'sharing rate limits', task: exchange, interval, logger });
  return { start: sharing.start, exchange, stop: sharing.stop };
}
