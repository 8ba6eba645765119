import { MinuteWindows } from '../fairness/minute-windows.ts';
import { createSetAsideLog, itemFailures, writeIsolated } from '../mongo/batcher.ts';
import { type durableCollection, inOneBatch } from '../mongo/collection.ts';
import { createPeriodic, type Periodic } from '../mongo/periodic.ts';
import type { Logger } from '../options/options.ts';
import type { RateDocument } from './model.ts';

/** What one key or account has used in one minute. */
export class MinuteCounter {
  /** By this process. */
  requests = 0;
  /** By this process; while a call runs, its estimate. */
  tokens = 0;
  /** By all other processes, as of the last exchange. */
  others = { requests: 0, tokens: 0 };
  /** What this process has told the others, and how many processes had used it then. */
  told = { requests: 0, tokens: 0 };
  processes = 1;
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

  /**
   * Whether the processes have used or given back a hundredth of what is left, if each has done as much as this one since it last told the
   * others.
   */
  isNear(kind: 'requests' | 'tokens', limit: number | undefined): boolean {
    if (limit === undefined) return false;
    return 100 * this.processes * Math.abs(this[kind] - this.told[kind]) >= limit - this.used(kind);
  }
}

/** What keys and accounts have used in the current minute. */
export class MinuteCounters extends MinuteWindows<MinuteCounter> {
  constructor() {
    super((subject, minute) => new MinuteCounter(subject, minute));
  }

  override of(subject: string, now: number): MinuteCounter {
    const counter = super.of(subject, now);
    counter.touched = true;
    return counter;
  }

  /** The counters that calls have used since the last call of this function. */
  takeTouched(): MinuteCounter[] {
    const touched = [...this.values()].filter((counter) => counter.touched);
    for (const counter of touched) counter.touched = false;
    return touched;
  }
}

/** How long a minute's counters are stored: longer than any process reads them. Milliseconds. */
const lifetime = 180_000;

export interface SharingDeps {
  readonly rates: ReturnType<typeof durableCollection<RateDocument>>;
  readonly counters: MinuteCounters;
  /** This process, `wrk_…`. */
  readonly owner: string;
  /** The shortest time from the end of an exchange to the next. Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** The same while no counter is near its limit. Milliseconds. */
const farInterval = 1_000;
/** How long the last exchange may take. Milliseconds. */
const longestLastExchange = 3_000;

function idOf({ subject, minute }: MinuteCounter): string {
  return `${minute}:${subject}`;
}

/**
 * Exchanges the counters with the other processes. Writes and reads only the counters used since the last exchange, in two commands
 * no matter how many there are, and none while nothing is used. Exchanged at every interval, ten calls a second that are far from their
 * limits send 0.94 of these commands each in place of 0.2, and wake the process 1.14 times as often (1.09 to 1.14 in six pairs).
 */
export class Sharing {
  readonly #deps: SharingDeps;
  readonly #logSetAside: ReturnType<typeof createSetAsideLog>;
  readonly #exchanging: Periodic;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  /** When the next exchange begins, and when the last one ended, by `performance.now()`. */
  #dueAt = Number.POSITIVE_INFINITY;
  #exchangedAt = Number.NEGATIVE_INFINITY;
  #isExchanging = false;
  #isStopped = false;
  /** Whether a counter is near its limit for which something was counted during an exchange. */
  #isNearMeanwhile: boolean | undefined;

  constructor(deps: SharingDeps) {
    const { logger } = deps;
    this.#deps = deps;
    this.#logSetAside = createSetAsideLog(logger, 'rate limits cannot be shared and count in this process alone');
    this.#exchanging = createPeriodic({
      name: 'sharing rate limits',
      task: () => this.exchange(),
      interval: lifetime,
      initialDelay: lifetime,
      logger,
    });
  }

  /** Call it when something was counted. @param isNear whether a counter is near its limit */
  counted(isNear: boolean): void {
    if (this.#isStopped) return;
    if (this.#isExchanging) {
      this.#isNearMeanwhile ||= isNear;
      return;
    }
    const { interval } = this.#deps;
    const due = this.#exchangedAt + (isNear ? interval : Math.max(interval, farInterval));
    if (due >= this.#dueAt) return;
    // with the first call, so that a gateway that fails to start leaves no timer behind
    this.#exchanging.start();
    this.#unschedule();
    this.#dueAt = due;
    const wait = due - performance.now();
    if (wait > 0) this.#timer = setTimeout(this.#exchanging.runNow, wait).unref();
    // after the calls that have come at the same time
    else this.#immediate = setImmediate(this.#exchanging.runNow);
  }

  /**
   * Exchanges them now: resolves with the others' counts as they were when it was called, or newer.
   * If it fails, each process continues with what it knows; the next exchange, with the next call, includes what this one missed.
   */
  async exchange(timeout?: number): Promise<void> {
    this.#unschedule();
    this.#isExchanging = true;
    const touched = this.#deps.counters.takeTouched();
    try {
      const outcomes = await writeIsolated(touched, {
        ...(timeout !== undefined && { timeout }),
        write: async (part) => {
          await this.#exchangePart(part);
          return [];
        },
      });
      for (const [, error] of itemFailures(touched, outcomes)) this.#logSetAside(error);
    } catch (error) {
      for (const counter of touched) counter.touched = true;
      throw error;
    } finally {
      this.#exchangedAt = performance.now();
      this.#isExchanging = false;
      const isNear = this.#isNearMeanwhile;
      this.#isNearMeanwhile = undefined;
      if (isNear !== undefined) this.counted(isNear);
    }
  }

  /** Tells the others what they do not know yet, then exchanges nothing more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#unschedule();
    await this.#exchanging.stop();
    await this.exchange(longestLastExchange).catch(() => {});
  }

  #unschedule(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    this.#dueAt = Number.POSITIVE_INFINITY;
  }

  async #exchangePart(touched: readonly MinuteCounter[]): Promise<void> {
    const { rates, owner } = this.#deps;
    const expiresAt = new Date(Date.now() + lifetime);
    const told = touched.map(({ requests, tokens }) => ({ requests, tokens }));
    await rates.bulkWrite(
      touched.map((counter, i) => ({
        updateOne: {
          filter: { _id: idOf(counter) },
          update: {
            $set: { [`used.${owner}`]: told[i] },
            $setOnInsert: { expiresAt },
          },
          upsert: true,
        },
      })),
      // the next exchange writes again what a failover loses
      { ordered: false, writeConcern: { w: 1 } },
    );
    const documents = await rates.find({ _id: { $in: touched.map(idOf) } }, inOneBatch).toArray();
    const byId = new Map(documents.map(({ _id, used }) => [_id, used]));
    for (const [i, counter] of touched.entries()) {
      const others = { requests: 0, tokens: 0 };
      const byProcess = Object.entries(byId.get(idOf(counter)) ?? {});
      for (const [process, { requests, tokens }] of byProcess) {
        if (process === owner) continue;
        others.requests += requests;
        others.tokens += tokens;
      }
      counter.others = others;
      counter.told = told[i] ?? counter.told;
      counter.processes = Math.max(1, byProcess.length);
    }
  }
}
