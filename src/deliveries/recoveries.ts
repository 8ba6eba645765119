import { GatewayError, refuse } from '../errors.ts';
import type { EventModel } from '../events/model.ts';
import { checkUserId, firstId, isId, newId } from '../ids.ts';
import { durableCollection, insertOnly } from '../mongo/collection.ts';
import { confirm, findConfirmed, findOneConfirmed } from '../mongo/confirmed-reads.ts';
import { checkPage, checkTimes, type Page, pageLimit } from '../mongo/list-page.ts';
import type { Logger } from '../options/options.ts';
import type { Attempts } from './attempt.ts';
import { firstDelivery } from './fan-out.ts';
import { type ManualAttempts, webhookInactive } from './manual-attempt.ts';
import type { DeliveryDocument, DeliveryModel, RecoveryDocument, RecoveryModel, RecoveryState } from './model.ts';
import {
  createRecoveryRunner,
  createRecoveryStore,
  createRunRecovery,
  createSendBatch,
  type FindRecoverable,
  type ForRecovery,
  maxRecovered,
  type Recoverable,
  type Redeliver,
  type RedeliveryResult,
} from './recovery-run.ts';
import { attemptsAllowed } from './retry.ts';

/** What to recover. */
export interface RecoveryRequest {
  /** Events published at this moment or later. */
  readonly since: Date;
  /** Events published before this moment. @default the present one */
  readonly until?: Date;
  /** @default all three */
  readonly states?: readonly RecoveryState[];
}

/** Recoveries of an account's webhooks. A webhook of another account counts as unknown. */
export interface RecoveryService {
  /**
   * Starts to send again what a webhook has missed. Any started process runs the recovery.
   * @throws GatewayError `webhook_not_found`, `invalid_value`, `webhook_inactive`, `recovery_running`
   */
  recover(userId: string, webhookId: string, request: RecoveryRequest): Promise<RecoveryDocument>;
  /** @throws GatewayError `webhook_not_found`, `recovery_not_found` */
  get(userId: string, webhookId: string, id: string): Promise<RecoveryDocument>;
  /**
   * Newest first.
   * @throws GatewayError `webhook_not_found`, `invalid_value`
   */
  list(
    userId: string,
    webhookId: string,
    page?: Page,
  ): Promise<{ readonly recoveries: RecoveryDocument[]; readonly hasMore: boolean }>;
  /** Runs recoveries in this process from now on. */
  start(): void;
  /** Waits for attempts in flight and leaves the rest to other processes. */
  close(): Promise<void>;
}

/** Durations are milliseconds. */
export interface RecoveryServiceDeps {
  readonly recoveries: RecoveryModel;
  readonly find: FindRecoverable;
  readonly redeliver: Redeliver;
  /**
   * Unless `suffices` is true of the webhook that a usual read finds, a confirmed read follows.
   * @throws GatewayError `webhook_not_found`, also for a webhook of another account
   */
  readonly webhook: (
    userId: string,
    id: string,
    suffices: (webhook: { readonly active: boolean }) => boolean,
  ) => Promise<{ readonly active: boolean }>;
  /** Attempts a second, for each recovery. */
  readonly rate: number;
  /** How long events and deliveries are kept, and recoveries after their end. */
  readonly retention: number;
  /** How long a lease lasts: after that, another process may run a dead process's recoveries. */
  readonly lease: number;
  /** How often waiting recoveries are looked for. */
  readonly interval: number;
  readonly logger: Logger;
}

const allStates: readonly RecoveryState[] = ['failed', 'canceled', 'skipped'];

function checkSpan(since: Date, until: Date, now: number, retention: number): void {
  checkTimes({ since, until });
  if (since.getTime() > now) refuse('invalid_value', 'since', 'must not be in the future');
  if (since.getTime() < now - retention) {
    refuse('invalid_value', 'since', `must be within the last ${retention / 86_400_000} days; nothing older is kept`);
  }
  if (until <= since) refuse('invalid_value', 'until', 'must be after since');
}

export function createRecoveryService(deps: RecoveryServiceDeps): RecoveryService {
  const { recoveries, find, webhook, retention, lease, logger } = deps;
  const collection = durableCollection(recoveries);
  const store = createRecoveryStore({ recoveries, owner: newId('wrk', Date.now()), lease, retention });
  const sendBatch = createSendBatch(deps.redeliver, logger);
  const runRecovery = createRunRecovery({ store, find, sendBatch, rate: deps.rate, lease, logger });
  const runner = createRecoveryRunner({ store, runRecovery, interval: deps.interval, logger });

  return {
    async recover(userId, webhookId, { since, until, states = allStates }) {
      checkUserId(userId);
      const { active } = await webhook(userId, webhookId, (found) => found.active);
      const startedAt = new Date();
      const selection = { userId, webhookId, states: [...states], since, until: until ?? startedAt };
      checkSpan(since, selection.until, startedAt.getTime(), retention);
      if (!active) throw webhookInactive(webhookId);
      const recovery = await store.start({
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
      });
      runner.runNow();
      return recovery;
    },

    async get(userId, webhookId, id) {
      checkUserId(userId);
      await webhook(userId, webhookId, () => true);
      const recovery = isId('rec', id) ? await findOneConfirmed(collection, { _id: id, webhookId, userId }) : null;
      if (recovery) return recovery;
      throw new GatewayError(
        'recovery_not_found',
        `No recovery ${id} is of this webhook; GET /v1/webhooks/${webhookId}/recoveries lists those that are`,
        { param: 'recovery_id' },
      );
    },

    async list(userId, webhookId, page = {}) {
      const { limit = pageLimit, after } = page;
      checkUserId(userId);
      checkPage(page, 'rec');
      await webhook(userId, webhookId, () => true);
      const documents = await collection
        .find({ webhookId, userId, ...(after !== undefined && { _id: { $lt: after } }) })
        .sort({ _id: -1 })
        .limit(limit + 1)
        .toArray();
      return { recoveries: documents.slice(0, limit), hasMore: documents.length > limit };
    },

    start: runner.start,
    close: runner.close,
  };
}

const idOnly = { _id: 1 } as const;

function idsBetween(prefix: 'dlv' | 'evt', { since, until }: Recoverable, after: string | null) {
  const before = firstId(prefix, until.getTime());
  return after === null ? { $gte: firstId(prefix, since.getTime()), $lt: before } : { $gt: after, $lt: before };
}

export function createFindRecoverable(deliveryModel: DeliveryModel, eventModel: EventModel): FindRecoverable {
  const deliveries = durableCollection(deliveryModel);
  const events = durableCollection(eventModel);

  async function endedFilter(selection: Recoverable, after: string | null) {
    const { userId, webhookId } = selection;
    const states = selection.states.filter((state) => state !== 'skipped');
    const type = { $in: await confirm((options) => deliveries.distinct('type', { webhookId }, options)) };
    return { webhookId, type, state: { $in: states }, _id: idsBetween('dlv', selection, after), userId, test: false };
  }

  function skippedFilter(selection: Recoverable, after: string | null) {
    const { userId, webhookId } = selection;
    // the second condition makes the partial index usable
    return { skipped: webhookId, 'skipped.0': { $exists: true }, _id: idsBetween('evt', selection, after), userId };
  }

  return {
    async count(selection, limit) {
      const [ended, missed] = await Promise.all([
        deliveries.countDocuments(await endedFilter(selection, null), { limit, hint: 'ofWebhook' }),
        selection.states.includes('skipped')
          ? events.countDocuments(skippedFilter(selection, null), { limit, hint: 'skipped' })
          : 0,
      ]);
      return Math.min(ended + missed, limit);
    },
    async deliveries(selection, after, limit) {
      const options = { projection: idOnly, hint: 'ofWebhook', sort: { _id: 1 }, limit } as const;
      const documents = await findConfirmed(deliveries, await endedFilter(selection, after), options);
      return documents.map(({ _id }) => _id);
    },
    async events(selection, after, limit) {
      if (!selection.states.includes('skipped')) return [];
      const options = { projection: idOnly, hint: 'skipped', sort: { _id: 1 }, limit } as const;
      const documents = await findConfirmed(events, skippedFilter(selection, after), options);
      return documents.map(({ _id }) => _id);
    },
  };
}

export interface RedeliverDeps {
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  readonly manual: ManualAttempts;
  readonly attempts: Pick<Attempts, 'prepare' | 'make'>;
  readonly retryDelays: readonly number[];
}

const recoverable = ['failed', 'canceled'] as const;

export function createRedeliver(deps: RedeliverDeps): Redeliver {
  const { manual, attempts, retryDelays } = deps;
  const deliveries = durableCollection(deps.deliveries);
  const events = durableCollection(deps.events);

  /** The result of this recovery's attempt, which is the delivery's last one. */
  function resultOf(delivery: DeliveryDocument | null, { recoveryId }: ForRecovery): RedeliveryResult {
    const last = delivery?.recoveredBy === recoveryId ? delivery.attempts.at(-1) : undefined;
    if (!last) return 'not_needed';
    return last.code === undefined ? 'delivered' : 'failed';
  }

  /** Stores the delivery unless it exists; it is due at once, by the database's clock. */
  async function store(delivery: DeliveryDocument): Promise<void> {
    const now = { dueAt: '$$NOW', claimableAt: '$$NOW', createdAt: '$$NOW' };
    await deliveries.updateOne({ _id: delivery._id }, insertOnly(delivery, now, 'eventId'), { upsert: true });
  }

  return {
    async delivery(recovery, deliveryId) {
      const claim = await manual.claimFor({ recoveryId: recovery.recoveryId, states: recoverable }, deliveryId);
      if (!claim) {
        const [delivery = null] = await findConfirmed(deliveries, { _id: deliveryId });
        const isSent = delivery?.recoveredBy === recovery.recoveryId && !delivery.manual;
        // another attempt was under way
        if (!isSent && recoverable.some((state) => state === delivery?.state)) return 'in_flight';
        return resultOf(delivery, recovery);
      }
      try {
        const { code } = await manual.make(claim);
        return code === undefined ? 'delivered' : 'failed';
      } catch (error) {
        if (error instanceof GatewayError && error.code === 'event_deleted') return 'not_needed';
        if (error instanceof GatewayError && error.code === 'attempt_in_flight') return 'in_flight';
        throw error;
      }
    },

    async missed(recovery, eventId) {
      const { webhookId, recoveryId } = recovery;
      const event = await findOneConfirmed(events, { _id: eventId }, { projection: { body: 0 } });
      if (!event) return 'not_needed';
      const delivery = firstDelivery(event, webhookId, attemptsAllowed(retryDelays, event.test));
      await store({ ...delivery, recoveredBy: recoveryId });
      // only after the delivery is stored, so that the event cannot be missed
      await events.updateOne(
        { _id: eventId, userId: event.userId, skipped: webhookId },
        { $pull: { skipped: webhookId }, $addToSet: { targets: webhookId }, $set: { targetsAdded: true } },
      );
      // outside the scheduler's limits: a recovery has its own pace
      const ref = { deliveryId: delivery._id, webhookId, userId: event.userId, attempt: 1 };
      await attempts.make(ref, attempts.prepare(ref).prepared);
      const [stored = null] = await findConfirmed(deliveries, { _id: delivery._id });
      const isWaiting = stored?.state === 'pending' && stored.attempts.length === 0;
      return isWaiting ? 'in_flight' : resultOf(stored, recovery);
    },
  };
}
