import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError, refuse } from '../errors.ts';
import type { EventModel } from '../events/model.ts';
import { firstId, isId, newId } from '../ids.ts';
import { fromNow } from '../mongo/clock.ts';
import { distinctValues, durableCollection } from '../mongo/collection.ts';
import { confirm, findConfirmed, findOneConfirmed } from '../mongo/confirmed-reads.ts';
import { LeaseKeeper, Leases } from '../mongo/lease.ts';
import { checkPage, checkTimes, type Page, pageLimit } from '../mongo/list-page.ts';
import { createPeriodic, type Periodic } from '../mongo/periodic.ts';
import { isDuplicateKey } from '../mongo/writes.ts';
import type { ResolvedOptions } from '../options/options.ts';
import { webhookInactive } from './manual-attempt.ts';
import type { DeliveryModel, RecoveryDocument, RecoveryModel, RecoveryState } from './model.ts';
import type { GetWebhook, Redeliver, RedeliveryResult } from './redeliver.ts';

export interface RecoveryServiceDeps {
  readonly recoveries: RecoveryModel;
  readonly find: FindRecoverable;
  readonly redeliver: Redeliver;
  readonly webhook: GetWebhook;
  readonly options: Pick<ResolvedOptions['deliveries'], 'retentionDays'> & Pick<ResolvedOptions, 'logger'>;
  /** Deliveries of one recovery in a second. */
  readonly rate: number;
}

const allStates: readonly RecoveryState[] = ['failed', 'canceled', 'skipped'];
/** How long a lease lasts: after that, another process may run a dead process's recoveries. Milliseconds. */
const lease = 9_000;
/** How often waiting recoveries are looked for. Milliseconds. */
const lookInterval = 5_000;
/** Recoveries that one process runs at once. */
const maxRunning = 4;
/** How long a recovery runs while others wait. Milliseconds. */
const turn = 5_000;

/** @throws GatewayError `invalid_value` */
function checkSpan({ since, until }: Selection, now: number, retentionDays: number): void {
  checkTimes({ since, until });
  if (since.getTime() > now) refuse('invalid_value', 'since', 'must not be in the future');
  if (since.getTime() < now - retentionDays * 86_400_000) {
    refuse('invalid_value', 'since', `must be within the last ${retentionDays} days; nothing older is kept`);
  }
  if (until <= since) refuse('invalid_value', 'until', 'must be after since');
}

/**
 * Recoveries of an account's webhooks. A webhook of another account counts as unknown. A recovery is run by one process at a
 * time, any that has started.
 */
export class RecoveryService {
  readonly #deps: RecoveryServiceDeps;
  readonly #collection: ReturnType<typeof durableCollection<RecoveryDocument>>;
  readonly #leases: Leases<RecoveryDocument>;
  /** Names this process in its leases. */
  readonly #owner = newId('wrk', Date.now());
  readonly #running = new Set<RecoveryRun>();
  readonly #look: Periodic;
  readonly #closing = new AbortController();
  /** Whether one probably waits: then it is taken without asking first. */
  #isExpected = false;

  constructor(deps: RecoveryServiceDeps) {
    this.#deps = deps;
    this.#collection = durableCollection(deps.recoveries);
    this.#leases = new Leases(this.#collection, { fence: 'lease.token', until: 'lease.until', duration: lease });
    this.#look = createPeriodic({
      name: 'looking for recoveries',
      task: () => this.#lookForWaiting(),
      interval: lookInterval,
      logger: deps.options.logger,
    });
  }

  /**
   * Starts to send again what a webhook has missed.
   * @param request by default until now, and all three states
   * @throws GatewayError `webhook_not_found`, `invalid_value`, `webhook_inactive`, `recovery_running`
   */
  async recover(
    userId: string,
    webhookId: string,
    request: Pick<Selection, 'since'> & Partial<Pick<Selection, 'until' | 'states'>>,
  ): Promise<RecoveryDocument> {
    const { webhook, find, options } = this.#deps;
    const { active } = await webhook(userId, webhookId, (found) => found.active);
    const startedAt = new Date();
    const { since, until = startedAt, states = allStates } = request;
    const selection = { userId, webhookId, states: [...states], since, until };
    checkSpan(selection, startedAt.getTime(), options.retentionDays);
    if (!active) throw webhookInactive(webhookId);
    const recovery: RecoveryDocument = {
      _id: newId('rec', startedAt.getTime()),
      ...selection,
      state: 'running',
      found: await find.count(selection, maxRecovered),
      resent: 0,
      delivered: 0,
      failed: 0,
      phase: 'deliveries',
      after: null,
      batch: [],
      seen: 0,
      lease: null,
      startedAt,
    };
    try {
      await this.#collection.insertOne(recovery);
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      const running = await this.#collection.findOne({ webhookId, state: 'running' }, { projection: { _id: 1 } });
      const message = `The recovery ${running?._id ?? ''} of this webhook is running; wait until it has ended`;
      throw new GatewayError('recovery_running', message);
    }
    this.#lookNow();
    return recovery;
  }

  /** @throws GatewayError `webhook_not_found`, `recovery_not_found` */
  async get(userId: string, webhookId: string, id: string): Promise<RecoveryDocument> {
    await this.#deps.webhook(userId, webhookId, () => true);
    const recovery = isId('rec', id) ? await findOneConfirmed(this.#collection, { _id: id, webhookId, userId }) : null;
    if (recovery) return recovery;
    throw new GatewayError(
      'recovery_not_found',
      `No recovery ${id} is of this webhook; GET /v1/webhooks/${webhookId}/recoveries lists those that are`,
      { param: 'recovery_id' },
    );
  }

  /**
   * Newest first.
   * @throws GatewayError `webhook_not_found`, `invalid_value`
   */
  async list(userId: string, webhookId: string, page: Page = {}) {
    const { limit = pageLimit, after } = page;
    checkPage(page, 'rec');
    await this.#deps.webhook(userId, webhookId, () => true);
    const filter = { webhookId, userId, ...(after !== undefined && { _id: { $lt: after } }) };
    const recoveries = await this.#collection.find(filter, { sort: { _id: -1 }, limit: limit + 1 }).toArray();
    return { recoveries: recoveries.slice(0, limit), hasMore: recoveries.length > limit };
  }

  /** Runs recoveries in this process from now on. */
  start(): void {
    this.#look.start();
  }

  /** Waits for attempts in flight and leaves the rest to other processes. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#look.stop();
    await Promise.all([...this.#running].map(({ ended }) => ended));
  }

  #lookNow(): void {
    this.#isExpected = true;
    this.#look.runNow();
  }

  /** Usually none waits. */
  async #lookForWaiting(): Promise<void> {
    const isExpected = this.#isExpected;
    this.#isExpected = false;
    const isAnyWaiting = () => this.#collection.findOne(this.#waiting([]), { projection: { _id: 1 } });
    if (isExpected || (await isAnyWaiting())) await this.#takeOver();
  }

  async #takeOver(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      const recovery = await this.#next();
      if (!recovery) return;
      const run = new RecoveryRun(recovery, this.#leases, this.#deps, this.#closing.signal);
      this.#running.add(run);
      void run.ended.then(() => {
        this.#running.delete(run);
        if (!this.#closing.signal.aborted) this.#lookNow();
      });
    }
  }

  /**
   * Takes the recovery that has waited longest, one of each account first. Further places may go to accounts that
   * already have one, except for the last place, which is kept for the next account. `null` if none waits or there is no room.
   */
  async #next(): Promise<RecoveryDocument | null> {
    await this.#makeRoom();
    const accounts = accountsOf(this.#active());
    if (this.#active().length >= maxRunning) return null;
    const recovery = await this.#take(accounts);
    if (recovery || accounts.length === 0 || this.#active().length >= maxRunning - 1) return recovery;
    return this.#take([]);
  }

  /** If no place is left, an account's second recovery leaves at once, and any other one after its turn. */
  async #makeRoom(): Promise<void> {
    const active = this.#active();
    if (active.length < maxRunning - 1) return;
    const overdue = active.find(({ startedAt }) => performance.now() - startedAt >= turn);
    const accounts = accountsOf(active);
    const second = active.find(({ recovery }, i) => accountsOf(active.slice(0, i)).includes(recovery.userId));
    if (await this.#hasWaiting(accounts)) {
      if (active.length >= maxRunning) (second ?? overdue)?.leave();
    } else if (overdue && (await this.#hasWaiting([]))) {
      overdue.leave();
    }
  }

  /** One that leaves does not count, although its attempts in flight may not have ended. */
  #active(): RecoveryRun[] {
    return [...this.#running].filter(({ isLeaving }) => !isLeaving);
  }

  #waiting(except: readonly string[]) {
    return {
      state: 'running' as const,
      ...(except.length > 0 && { userId: { $nin: [...except] } }),
      $expr: this.#leases.isFree,
    };
  }

  async #hasWaiting(except: readonly string[]): Promise<boolean> {
    return (await this.#collection.findOne(this.#waiting(except), { projection: { _id: 1 } })) !== null;
  }

  async #take(except: readonly string[]): Promise<RecoveryDocument | null> {
    const set = { 'lease.owner': this.#owner, 'lease.token': randomUUID() };
    const taken = await this.#leases.take(this.#waiting(except), set, { sort: { servedAt: 1, _id: 1 } });
    return taken?.document ?? null;
  }
}

function accountsOf(runs: readonly RecoveryRun[]): string[] {
  return [...new Set(runs.map(({ recovery }) => recovery.userId))];
}

/** The most that one recovery sends. */
const maxRecovered = 100_000;
/** Ids between two writes of the progress. */
const batchSize = 50;
/** Attempts of one recovery in flight at once: fewer than a webhook's new events may have. */
const attemptsAtOnce = 4;
/** The wait while another attempt of the same delivery is under way. Milliseconds. */
const lookAgainIn = 250;
/** The wait after the database or a secret could not be read. Milliseconds. */
const tryAgainIn = 1_000;

/** What a recovery writes as it goes. */
type Progress = Partial<
  Pick<RecoveryDocument, 'phase' | 'after' | 'batch' | 'seen' | 'resent' | 'delivered' | 'failed'>
>;

/**
 * A recovery that this process runs. A batch is stored before it is sent, and counted afterwards in one write with the progress.
 * A process that takes over goes through the stored batch again, and sends what was not sent.
 */
class RecoveryRun {
  readonly recovery: RecoveryDocument;
  /** By `performance.now()`. */
  readonly startedAt = performance.now();
  /** Resolves when it has ended, or when other processes may continue it. */
  readonly ended: Promise<void>;
  readonly #leases: Leases<RecoveryDocument>;
  readonly #held: { readonly _id: string; readonly fence: string };
  readonly #deps: RecoveryServiceDeps;
  readonly #leaving = new AbortController();
  readonly #lost = new AbortController();
  readonly #stop: AbortSignal;
  #nextAt = performance.now();
  /** Whether the webhook is gone or inactive, so that the recovery ends. */
  #refused = false;

  constructor(
    recovery: RecoveryDocument,
    leases: Leases<RecoveryDocument>,
    deps: RecoveryServiceDeps,
    closing: AbortSignal,
  ) {
    this.recovery = recovery;
    this.#leases = leases;
    this.#held = { _id: recovery._id, fence: recovery.lease?.token ?? '' };
    this.#deps = deps;
    this.#stop = AbortSignal.any([closing, this.#leaving.signal, this.#lost.signal]);
    this.ended = this.#run().catch((error: unknown) => {
      const reason = String(error);
      deps.options.logger.warn('a recovery failed and will be continued', { recoveryId: recovery._id, reason });
    });
  }

  /** Leaves it to another turn or another process once the attempts in flight have ended. */
  leave(): void {
    this.#leaving.abort();
  }

  get isLeaving(): boolean {
    return this.#leaving.signal.aborted;
  }

  async #run(): Promise<void> {
    const keeper = new LeaseKeeper<RecoveryRun>({
      name: 'renewing the lease of a recovery',
      renew: async () => ((await this.#advance({})) ? [this] : []),
      onLost: () => this.#lost.abort(),
      duration: lease,
      interval: lease / 3,
      logger: this.#deps.options.logger,
    });
    keeper.hold(this, performance.now() + lease);
    try {
      let goesOn = true;
      while (goesOn && !this.#stop.aborted) {
        goesOn = this.recovery.batch.length === 0 ? await this.#takeBatch() : await this.#sendBatch();
      }
      if (this.#stop.aborted) await this.#leases.write(this.#held, { lease: null, servedAt: '$$NOW' });
    } finally {
      await keeper.drop(this);
    }
  }

  /** Stores what to send next, and ends the recovery if there is nothing. `false` if it goes no further here. */
  async #takeBatch(): Promise<boolean> {
    const { phase, after, seen } = this.recovery;
    const limit = Math.min(batchSize, maxRecovered - seen);
    const batch = limit > 0 ? await this.#deps.find[phase](this.recovery, after, limit) : [];
    if (batch.length > 0) return this.#advance({ batch });
    if (phase === 'deliveries') return this.#advance({ phase: 'events', after: null });
    await this.#finish();
    return false;
  }

  /** Sends the batch and counts it. `false` if the recovery goes no further here. */
  async #sendBatch(): Promise<boolean> {
    const { batch, seen, resent, delivered, failed } = this.recovery;
    const waiting = [...batch];
    const results: RedeliveryResult[] = [];
    const work = async () => {
      for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
        await this.#pace();
        const result = await this.#send(id);
        if (!result) return;
        results.push(result);
      }
    };
    await Promise.all(Array.from({ length: attemptsAtOnce }, work));
    // it was stopped: the batch stays stored
    if (!this.#refused && results.length < batch.length) return true;
    const newlyDelivered = results.filter((result) => result === 'delivered').length;
    const newlyFailed = results.filter((result) => result === 'failed').length;
    const isHeld = await this.#advance({
      after: batch.at(-1) ?? null,
      batch: [],
      seen: seen + results.length,
      resent: resent + newlyDelivered + newlyFailed,
      delivered: delivered + newlyDelivered,
      failed: failed + newlyFailed,
    });
    if (isHeld && this.#refused) await this.#finish();
    return isHeld && !this.#refused;
  }

  /** Spaces attempts evenly. A time that was not used is not made up for. */
  async #pace(): Promise<void> {
    const interval = 1_000 / this.#deps.rate;
    const now = performance.now();
    const startAt = Math.max(this.#nextAt, now - interval);
    this.#nextAt = startAt + interval;
    if (startAt > now) await sleep(startAt - now, undefined, { signal: this.#stop }).catch(() => {});
  }

  /** Repeats until the result is known; `null` if the recovery stops before. */
  async #send(id: string): Promise<RedeliveryResult | null> {
    const { redeliver, options } = this.#deps;
    while (!this.#refused && !this.#stop.aborted) {
      try {
        const result = await redeliver[this.recovery.phase](this.recovery, id);
        if (result !== 'in_flight') return result;
        await sleep(lookAgainIn);
      } catch (error) {
        const code = error instanceof GatewayError ? error.code : undefined;
        this.#refused ||= code === 'webhook_deleted' || code === 'webhook_inactive';
        if (this.#refused) return null;
        const { _id: recoveryId } = this.recovery;
        options.logger.warn('a recovery tries again', { recoveryId, id, reason: String(error) });
        await sleep(tryAgainIn);
      }
    }
    return null;
  }

  /** Writes the progress, which has no text of anybody's, and extends the lease; `false` if the lease was lost. */
  async #advance(progress: Progress): Promise<boolean> {
    const isHeld = await this.#leases.write(this.#held, { ...progress, ...this.#leases.extended });
    if (isHeld) Object.assign(this.recovery, progress);
    return isHeld;
  }

  async #finish(): Promise<void> {
    const expiresAt = fromNow(this.#deps.options.retentionDays * 86_400_000);
    await this.#leases.write(this.#held, { lease: null, state: 'done', batch: [], endedAt: '$$NOW', expiresAt });
  }
}

/** What to send again to a webhook. */
type Selection = Readonly<Pick<RecoveryDocument, 'userId' | 'webhookId' | 'since' | 'until'>> & {
  readonly states: readonly RecoveryState[];
};

function idsBetween(prefix: 'dlv' | 'evt', { since, until }: Selection, after: string | null) {
  const before = firstId(prefix, until.getTime());
  return after === null ? { $gte: firstId(prefix, since.getTime()), $lt: before } : { $gt: after, $lt: before };
}

const oldestFirst = { projection: { _id: 1 }, sort: { _id: 1 } } as const;

/**
 * Finds what a webhook has missed, by index, oldest first. The reads are confirmed, because a recovery never returns to what it
 * did not find. Test events do not count as missed.
 */
type FindRecoverable = ReturnType<typeof createFindRecoverable>;

export function createFindRecoverable(deliveryModel: DeliveryModel, eventModel: EventModel) {
  const deliveries = durableCollection(deliveryModel);
  const events = durableCollection(eventModel);

  async function endedFilter(selection: Selection, after: string | null) {
    const { userId, webhookId } = selection;
    const states = selection.states.filter((state) => state !== 'skipped');
    const type = { $in: await confirm((options) => distinctValues(deliveries, 'type', { webhookId }, options)) };
    return { webhookId, type, state: { $in: states }, _id: idsBetween('dlv', selection, after), userId, test: false };
  }

  function skippedFilter(selection: Selection, after: string | null) {
    const { userId, webhookId } = selection;
    // the second condition makes the partial index usable
    return { skipped: webhookId, 'skipped.0': { $exists: true }, _id: idsBetween('evt', selection, after), userId };
  }

  return {
    /** The number of deliveries and events, at most `limit`. An unconfirmed read, because it is only shown. */
    async count(selection: Selection, limit: number): Promise<number> {
      const [ended, missed] = await Promise.all([
        deliveries.countDocuments(await endedFilter(selection, null), { limit, hint: 'ofWebhook' }),
        selection.states.includes('skipped')
          ? events.countDocuments(skippedFilter(selection, null), { limit, hint: 'skipped' })
          : 0,
      ]);
      return Math.min(ended + missed, limit);
    },

    /** Ids of deliveries that ended without success. */
    async deliveries(selection: Selection, after: string | null, limit: number): Promise<string[]> {
      const options = { ...oldestFirst, hint: 'ofWebhook', limit };
      return (await findConfirmed(deliveries, await endedFilter(selection, after), options)).map(({ _id }) => _id);
    },

    /** Ids of events that were not sent. */
    async events(selection: Selection, after: string | null, limit: number): Promise<string[]> {
      if (!selection.states.includes('skipped')) return [];
      const options = { ...oldestFirst, hint: 'skipped', limit };
      return (await findConfirmed(events, skippedFilter(selection, after), options)).map(({ _id }) => _id);
    },
  };
}
