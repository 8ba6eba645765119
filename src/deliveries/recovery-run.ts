import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../errors.ts';
import { fromNow } from '../mongo/clock.ts';
import { durableCollection } from '../mongo/collection.ts';
import { LeaseKeeper, Leases } from '../mongo/lease.ts';
import { createPeriodic } from '../mongo/periodic.ts';
import { isDuplicateKey } from '../mongo/writes.ts';
import type { Logger } from '../options/options.ts';
import type { RecoveryDocument, RecoveryModel, RecoveryState } from './model.ts';

/** Selects what to send again to a webhook. */
export interface Recoverable {
  readonly userId: string;
  readonly webhookId: string;
  readonly states: readonly RecoveryState[];
  /** Only events published at this moment or later … */
  readonly since: Date;
  /** … and before this one. */
  readonly until: Date;
}

/**
 * Finds what a webhook has missed, by index, oldest first. The reads are confirmed, because a recovery never returns to what it
 * did not find. Test events do not count as missed.
 */
export interface FindRecoverable {
  /** The number of deliveries and events, at most `atMost`. An unconfirmed read, because it is only shown. */
  count(selection: Recoverable, atMost: number): Promise<number>;
  /** Ids of deliveries that ended without success. */
  deliveries(selection: Recoverable, after: string | null, limit: number): Promise<string[]>;
  /** Ids of events that were not sent. */
  events(selection: Recoverable, after: string | null, limit: number): Promise<string[]>;
}

/** The result of a redelivery. `not_needed`: there is no need any more. `in_flight`: another attempt is under way; try again. */
export type RedeliveryResult = 'delivered' | 'failed' | 'not_needed' | 'in_flight';

/** The recovery that asks. */
export interface ForRecovery {
  readonly recoveryId: string;
  readonly webhookId: string;
}

/** Sends again for a recovery. A second call for the same recovery sends nothing, and returns the first result. */
export interface Redeliver {
  /**
   * One more attempt of a delivery that failed or was canceled.
   * @throws GatewayError `webhook_deleted`, `webhook_inactive`: nothing more can be sent
   */
  delivery(recovery: ForRecovery, deliveryId: string): Promise<RedeliveryResult>;
  /** Delivers an event that was missed, on a schedule that starts now. */
  missed(recovery: ForRecovery, eventId: string): Promise<RedeliveryResult>;
}

/** The progress of a recovery. */
export type Progress = Pick<RecoveryDocument, 'phase' | 'after' | 'batch' | 'seen' | 'resent' | 'delivered' | 'failed'>;

/** The stored recoveries. One process at a time runs each of them. */
export interface RecoveryStore {
  /** @throws GatewayError `recovery_running` if the webhook has a running recovery */
  start(recovery: RecoveryDocument): Promise<RecoveryDocument>;
  /** Takes the recovery that has waited longest, of none of these accounts; `null` if none waits. */
  take(except: readonly string[]): Promise<RecoveryDocument | null>;
  /** Whether one waits. */
  hasWaiting(except: readonly string[]): Promise<boolean>;
  /** Writes the progress and extends the lease; `false` if the lease was lost. */
  advance(recovery: RecoveryDocument, progress: Partial<Progress>): Promise<boolean>;
  finish(recovery: RecoveryDocument): Promise<void>;
  /** Leaves it to another process. */
  release(recovery: RecoveryDocument): Promise<void>;
}

/** Durations are milliseconds. */
export interface RecoveryStoreDeps {
  readonly recoveries: RecoveryModel;
  /** Names this process in its leases. */
  readonly owner: string;
  readonly lease: number;
  /** How long a recovery is kept after its end. */
  readonly retention: number;
}

function literals(values: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { $literal: value }]));
}

export function createRecoveryStore({
  recoveries,
  owner,
  lease: duration,
  retention,
}: RecoveryStoreDeps): RecoveryStore {
  const collection = durableCollection(recoveries);
  const leases = new Leases(collection, { fence: 'lease.token', until: 'lease.until', duration });
  const waiting = (except: readonly string[]) => ({
    state: 'running' as const,
    ...(except.length > 0 && { userId: { $nin: [...except] } }),
    $expr: leases.isFree,
  });
  const held = ({ _id, lease }: RecoveryDocument) => ({ _id, fence: lease?.token ?? '' });

  return {
    async start(recovery) {
      try {
        await collection.insertOne(recovery);
      } catch (error) {
        if (!isDuplicateKey(error)) throw error;
        const { webhookId } = recovery;
        const running = await collection.findOne({ webhookId, state: 'running' }, { projection: { _id: 1 } });
        const message = `The recovery ${running?._id ?? ''} of this webhook is running; wait until it has ended`;
        throw new GatewayError('recovery_running', message);
      }
      return recovery;
    },
    async take(except) {
      const set = { 'lease.owner': owner, 'lease.token': randomUUID() };
      const taken = await leases.take(waiting(except), set, { sort: { servedAt: 1, _id: 1 } });
      return taken?.document ?? null;
    },
    hasWaiting: async (except) => (await collection.findOne(waiting(except), { projection: { _id: 1 } })) !== null,
    advance: (recovery, progress) => leases.write(held(recovery), { ...literals(progress), ...leases.extended }),
    async finish(recovery) {
      const ended = { state: 'done', batch: [], endedAt: '$$NOW', expiresAt: fromNow(retention) };
      await leases.write(held(recovery), { lease: null, ...ended });
    },
    async release(recovery) {
      await leases.write(held(recovery), { lease: null, servedAt: '$$NOW' });
    },
  };
}

/** The most that one recovery sends. */
export const maxRecovered = 100_000;
/** Ids between two writes of the progress. */
const batchSize = 50;

export interface RunRecoveryDeps {
  readonly store: RecoveryStore;
  readonly find: FindRecoverable;
  readonly sendBatch: SendBatch;
  /** Attempts a second, for each recovery. */
  readonly rate: number;
  /** How long its lease lasts unless it is renewed. Milliseconds. */
  readonly lease: number;
  readonly logger: Logger;
}

/** Runs a recovery until it has ended or the signal aborts. */
export type RunRecovery = (recovery: RecoveryDocument, signal: AbortSignal) => Promise<void>;

/** The progress of a recovery after its batch was sent. */
function counted(recovery: RecoveryDocument, { results }: SentBatch) {
  const delivered = results.filter((resent) => resent === 'delivered').length;
  const failed = results.filter((resent) => resent === 'failed').length;
  return {
    after: recovery.batch.at(-1) ?? null,
    batch: [],
    seen: recovery.seen + results.length,
    resent: recovery.resent + delivered + failed,
    delivered: recovery.delivered + delivered,
    failed: recovery.failed + failed,
  };
}

/**
 * Makes the function that runs a recovery. A batch is stored before it is sent, and counted afterwards in one write with the
 * progress. A process that takes over goes through the stored batch again, and sends what was not sent.
 */
export function createRunRecovery(deps: RunRecoveryDeps): RunRecovery {
  const { store, find, logger } = deps;

  async function takeBatch(recovery: RecoveryDocument): Promise<Partial<RecoveryDocument> | null> {
    const limit = Math.min(batchSize, maxRecovered - recovery.seen);
    const batch = limit > 0 ? await find[recovery.phase](recovery, recovery.after, limit) : [];
    if (batch.length > 0) return { batch };
    return recovery.phase === 'deliveries' ? { phase: 'events', after: null } : null;
  }

  /** Makes one step; `false` if the recovery goes no further in this process. */
  async function step(recovery: RecoveryDocument, pace: Pace, signal: AbortSignal): Promise<boolean> {
    if (recovery.batch.length === 0) {
      const progress = await takeBatch(recovery);
      if (progress !== null) return advance(recovery, progress);
      await store.finish(recovery);
      return false;
    }
    const sent = await deps.sendBatch(recovery, pace, signal);
    if (!sent.refused && sent.results.length < recovery.batch.length) return true;
    const isHeld = await advance(recovery, counted(recovery, sent));
    if (isHeld && sent.refused) await store.finish(recovery);
    return isHeld && !sent.refused;
  }

  async function advance(recovery: RecoveryDocument, progress: Partial<RecoveryDocument>): Promise<boolean> {
    const isHeld = await store.advance(recovery, progress);
    if (isHeld) Object.assign(recovery, progress);
    return isHeld;
  }

  return async function runRecovery(recovery, signal) {
    const lost = new AbortController();
    const stop = AbortSignal.any([signal, lost.signal]);
    const pace = createPace(deps.rate, stop);
    const keeper = new LeaseKeeper<RecoveryDocument>({
      name: 'renewing the lease of a recovery',
      renew: async () => ((await store.advance(recovery, {})) ? [recovery] : []),
      onLost: () => lost.abort(),
      duration: deps.lease,
      interval: deps.lease / 3,
      logger,
    });
    keeper.hold(recovery, performance.now() + deps.lease);
    try {
      let goesOn = true;
      while (goesOn && !stop.aborted) goesOn = await step(recovery, pace, stop);
      if (stop.aborted) await store.release(recovery);
    } finally {
      await keeper.drop(recovery);
    }
  };
}

/** Runs recoveries in this process. */
export interface RecoveryRunner {
  start(): void;
  /** A recovery waits. */
  runNow(): void;
  /** Waits for attempts in flight and leaves the rest to other processes. */
  close(): Promise<void>;
}

export interface RecoveryRunnerDeps {
  readonly store: RecoveryStore;
  readonly runRecovery: RunRecovery;
  /** How often waiting recoveries are looked for. Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

export function createRecoveryRunner({ store, runRecovery, interval, logger }: RecoveryRunnerDeps): RecoveryRunner {
  const turns = new RecoveryTurns(store);
  const stop = new AbortController();
  const active = new Set<Promise<void>>();

  function begin(recovery: RecoveryDocument): void {
    const running = turns.begin(recovery.userId);
    const signal = AbortSignal.any([stop.signal, running.leave.signal]);
    const ended: Promise<void> = runRecovery(recovery, signal)
      .catch((error: unknown) => {
        logger.warn('a recovery failed and will be continued', { recoveryId: recovery._id, reason: String(error) });
      })
      .finally(() => {
        active.delete(ended);
        turns.end(running);
        if (!stop.signal.aborted) look.runNow();
      });
    active.add(ended);
  }

  async function takeOver(): Promise<void> {
    while (!stop.signal.aborted) {
      const recovery = await turns.next();
      if (!recovery) return;
      begin(recovery);
    }
  }

  const look = createPeriodic({ name: 'looking for recoveries', task: takeOver, interval, logger });

  return {
    start: look.start,
    runNow: look.runNow,
    async close() {
      stop.abort();
      await look.stop();
      await Promise.all(active);
    },
  };
}

/** Recoveries that one process runs at once. */
const maxRunning = 4;
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
class RecoveryTurns {
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
    if (this.#active().length >= maxRunning) return null;
    const recovery = await this.#store.take(accounts);
    if (recovery || accounts.length === 0 || this.#active().length >= maxRunning - 1) return recovery;
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
    if (active.length < maxRunning - 1) return;
    const overdue = active.find(({ startedAt }) => performance.now() - startedAt >= turn);
    const second = active.find((running, i) => active.some(({ userId }, j) => j < i && userId === running.userId));
    if (await this.#store.hasWaiting(this.#accounts())) {
      if (active.length >= maxRunning) (second ?? overdue)?.leave.abort();
    } else if (overdue && (await this.#store.hasWaiting([]))) {
      overdue.leave.abort();
    }
  }
}

/** Attempts of one recovery in flight at once: fewer than a webhook's new events may have. */
const attemptsAtOnce = 4;
/** The wait while another attempt of the same delivery is under way. Milliseconds. */
const lookAgainIn = 250;
/** The wait after the database or a secret could not be read. Milliseconds. */
const tryAgainIn = 1_000;

/** The results of a batch. */
export interface SentBatch {
  readonly results: readonly Exclude<RedeliveryResult, 'in_flight'>[];
  /** Whether the webhook is gone or inactive, so that the recovery ends. */
  readonly refused: boolean;
}

/** Sends the ids of a recovery's batch that have not been sent, until the signal aborts. */
export type SendBatch = (recovery: RecoveryDocument, pace: Pace, signal: AbortSignal) => Promise<SentBatch>;

function isRefusal(error: unknown): boolean {
  return error instanceof GatewayError && (error.code === 'webhook_deleted' || error.code === 'webhook_inactive');
}

export function createSendBatch(redeliver: Redeliver, logger: Logger): SendBatch {
  function sendOnce({ _id: recoveryId, webhookId, phase }: RecoveryDocument, id: string): Promise<RedeliveryResult> {
    const recovery = { recoveryId, webhookId };
    return phase === 'deliveries' ? redeliver.delivery(recovery, id) : redeliver.missed(recovery, id);
  }

  return async function sendBatch(recovery, pace, signal) {
    const waiting = [...recovery.batch];
    const results: SentBatch['results'][number][] = [];
    let refused = false;

    const goesOn = () => !refused && !signal.aborted;

    /** Repeats until the result is known. */
    async function send(id: string): Promise<void> {
      while (goesOn()) {
        try {
          const resent = await sendOnce(recovery, id);
          if (resent !== 'in_flight') {
            results.push(resent);
            return;
          }
          await sleep(lookAgainIn);
        } catch (error) {
          refused ||= isRefusal(error);
          if (refused) return;
          logger.warn('a recovery tries again', { recoveryId: recovery._id, id, reason: String(error) });
          await sleep(tryAgainIn);
        }
      }
    }

    async function work(): Promise<void> {
      for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
        if (!(await pace()) || !goesOn()) return;
        await send(id);
      }
    }

    await Promise.all(Array.from({ length: attemptsAtOnce }, work));
    return { results, refused };
  };
}

/** Resolves when the next step may start; to `false` if there must be no more. */
export type Pace = () => Promise<boolean>;

/** Spaces steps evenly, `perSecond` a second. Unused steps are not made up for. */
function createPace(perSecond: number, signal: AbortSignal): Pace {
  const interval = 1_000 / perSecond;
  let next = performance.now();
  return async function pace() {
    const now = performance.now();
    next = Math.max(next, now - interval);
    const wait = next - now;
    next += interval;
    if (wait > 0) await sleep(wait, undefined, { signal }).catch(() => {});
    return !signal.aborted;
  };
}
