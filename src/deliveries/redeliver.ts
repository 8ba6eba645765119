import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../errors.ts';
import type { EventModel } from '../events/model.ts';
import type { LeasedEvent } from '../events/outbox.ts';
import type { TestPublication } from '../events/service.ts';
import type { InFlightLimit } from '../fairness/account-shares.ts';
import { checkUserId, isId } from '../ids.ts';
import { durableCollection, insertOnly } from '../mongo/collection.ts';
import { findConfirmed, findOneConfirmed } from '../mongo/confirmed-reads.ts';
import type { DatabaseBudget } from '../mongo/connection/availability.ts';
import type { Webhook } from '../webhooks/webhook.ts';
import type { AttemptDeps, Attempts, AttemptWait } from './attempt.ts';
import { refOf } from './claims.ts';
import type { UnfinishedEventsDeps } from './due.ts';
import { type FanOut, firstDelivery } from './fan-out.ts';
import { type DeliveryHistory, type DerivedDeliveries, deliveryNotFound, type ShownDelivery } from './history.ts';
import { attemptInFlight, type ManualAttempts, recoverableStates, webhookInactive } from './manual-attempt.ts';
import type { Claim, DeliveryDocument, DeliveryModel, RecoveryDocument } from './model.ts';
import { attemptsAllowed, type RetryRules } from './retry.ts';

/** How long a response waits for the outcome of an attempt: longer than any attempt takes. Milliseconds. */
const outcomeWait = 35_000;
/** How often a test event looks for its outcome. Milliseconds. */
const lookInterval = 100;
const noop = () => {};

/** A delivery, and whether the requested attempt has ended. */
export interface ResendResult {
  readonly delivery: ShownDelivery;
  readonly ended: boolean;
}

/** What waits for the outcome of an attempt that an account has asked for. */
interface OutcomeWaitDeps {
  readonly history: Pick<DeliveryHistory, 'get'>;
  readonly hasEnded: AttemptWait['hasEnded'];
  /** Limits how many of them an account has under way at once. */
  readonly limit: InFlightLimit;
  /** How long to wait for the outcome. Milliseconds. @default 35_000 */
  readonly wait?: number;
}

export interface ResendDeps
  extends OutcomeWaitDeps,
    Pick<UnfinishedEventsDeps, 'take' | 'settleSubscribers' | 'lease'>,
    Pick<AttemptDeps, 'pendingWork' | 'logger'> {
  readonly manual: ManualAttempts;
  readonly derivedDeliveries: Pick<DerivedDeliveries, 'find'>;
  readonly fanOut: Pick<FanOut, 'store'>;
}

export function createResend(deps: ResendDeps) {
  const { manual, history, pendingWork, limit, logger, wait = outcomeWait } = deps;

  /**
   * Stores a delivery that is not stored yet, with all others of its event, for any worker to claim. Resolves to `false` if a process
   * holds the event.
   */
  async function store(userId: string, deliveryId: string): Promise<boolean> {
    const delivery = await deps.derivedDeliveries.find(userId, deliveryId);
    const [taken] = delivery ? await deps.take([{ _id: delivery.eventId, userId }], deps.lease) : [];
    if (!taken) return false;
    await deps.fanOut.store({ event: await deps.settleSubscribers(taken.event), lease: taken.lease });
    return true;
  }

  async function claimFor(userId: string, deliveryId: string, budget: DatabaseBudget): Promise<Claim> {
    let claiming: Promise<Claim | null> | undefined;
    const begin = () => {
      claiming = manual.claim(userId, deliveryId);
      return claiming;
    };
    const claim = await budget.run(begin).catch((error: unknown) => {
      // a claim that arrives late is given back
      if (claiming) pendingWork.add(claiming.then((claim) => claim && manual.giveBack(claim)).then(noop, noop));
      throw error;
    });
    if (claim) return claim;
    if (await budget.run(() => store(userId, deliveryId))) return claimFor(userId, deliveryId, budget);
    await budget.run(() => history.get(userId, deliveryId));
    throw attemptInFlight();
  }

  /**
   * Makes one more attempt now and waits for its outcome.
   * @throws GatewayError `delivery_not_found`, `attempt_in_flight`, `webhook_deleted`, `webhook_inactive`, `event_deleted`,
   *   `rate_limit_exceeded`
   */
  return async function resend(userId: string, deliveryId: string, budget: DatabaseBudget): Promise<ResendResult> {
    checkUserId(userId);
    if (!isId('dlv', deliveryId)) throw deliveryNotFound(deliveryId);
    const leave = limit.enter(userId);
    const claim = await claimFor(userId, deliveryId, budget).catch((error: unknown) => {
      leave();
      throw error;
    });
    const result = manual.make(claim).finally(leave);
    // the attempt continues after this call has stopped waiting
    pendingWork.add(
      result.then(noop, (error: unknown) => {
        if (error instanceof GatewayError) return;
        logger.error('a manual attempt could not be made', { deliveryId, reason: String(error) });
      }),
    );
    const ended = await deps.hasEnded(result, deliveryId, wait, budget);
    return { delivery: await budget.run(() => history.get(userId, deliveryId)), ended };
  };
}

type MakeTestAttempt = ReturnType<typeof createMakeTestAttempt>;

export function createMakeTestAttempt(fanOut: Pick<FanOut, 'firstAttempt'>, attempts: Attempts) {
  /** Makes the one attempt of a test event that this process holds, outside the scheduler's limits. `ended` never rejects. */
  return function makeTestAttempt({ event, lease }: LeasedEvent) {
    const [webhookId = ''] = event.targets;
    const delivery = firstDelivery(event, webhookId, 1);
    const { _id: deliveryId } = delivery;

    async function make(): Promise<void> {
      const first = lease && (await fanOut.firstAttempt({ event, lease }));
      // if the lease has lapsed, the delivery was stored for any worker to claim
      const preparing = first ? attempts.prepareFirst(first) : attempts.prepare({ deliveryId, attempt: 1 }).prepared;
      return attempts.make(preparing);
    }

    return { deliveryId, ended: make().catch(noop) };
  };
}

type Target = Pick<Webhook, 'active' | 'events'>;

/**
 * Checks the account's id and finds a webhook of it. Unless `suffices` is true of the one that a usual read finds, a confirmed read follows.
 * @throws GatewayError `webhook_not_found`, also for a webhook of another account
 */
export type GetWebhook = (userId: string, id: string, suffices: (webhook: Target) => boolean) => Promise<Target>;

export interface SendTestDeps extends OutcomeWaitDeps {
  readonly webhook: GetWebhook;
  readonly publishTest: (event: Omit<TestPublication, 'lease'>) => Promise<LeasedEvent>;
  readonly makeTestAttempt: MakeTestAttempt;
}

export type SendTest = ReturnType<typeof createSendTest>;

export function createSendTest({ wait = outcomeWait, ...deps }: SendTestDeps) {
  /**
   * Sends the example of a type, or other data of it, to one webhook, in one attempt, and waits for the outcome.
   * @throws GatewayError `webhook_not_found`, `webhook_inactive`, `unknown_event_type`, `invalid_event_data`, `invalid_value`,
   *   `rate_limit_exceeded`
   */
  return async function sendTest(
    userId: string,
    webhookId: string,
    test: Pick<TestPublication, 'type' | 'data'>,
    budget: DatabaseBudget,
  ): Promise<ResendResult> {
    const { type } = test;
    const leave = deps.limit.enter(userId);
    try {
      const until = performance.now() + wait;
      const takes = ({ active, events }: Target) => active && events.includes(type);
      const { active, events } = await budget.run(() => deps.webhook(userId, webhookId, takes));
      if (!events.includes(type)) {
        const message = `type: the webhook is not subscribed to ${type.slice(0, 60)}, only to ${events.join(', ')}`;
        throw new GatewayError('invalid_value', message, { param: 'type' });
      }
      if (!active) throw webhookInactive(webhookId);
      const event = await budget.run(() => deps.publishTest({ ...test, userId, webhookId }));
      const { deliveryId, ended } = deps.makeTestAttempt(event);
      const hasEnded = await deps.hasEnded(ended, deliveryId, until - performance.now(), budget);
      for (;;) {
        const delivery = await budget.run(() => deps.history.get(userId, deliveryId));
        // waiting for the receiver does not count
        budget.renew();
        if (delivery.state !== 'pending') return { delivery, ended: true };
        if (!hasEnded || performance.now() > until) return { delivery, ended: false };
        await sleep(lookInterval);
      }
    } finally {
      leave();
    }
  };
}

/** The result of a redelivery. `not_needed`: there is no need any more. `in_flight`: another attempt is under way; try again. */
export type RedeliveryResult = 'delivered' | 'failed' | 'not_needed' | 'in_flight';

export interface RedeliverDeps extends Pick<RetryRules, 'retryDelays'> {
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  readonly manual: ManualAttempts;
  readonly attempts: Pick<Attempts, 'prepare' | 'make'>;
}

/** The recovery that asks. */
type Asking = Pick<RecoveryDocument, '_id' | 'webhookId'>;

/** The result of this recovery's attempt, which is the delivery's last one. */
function resultOf(delivery: DeliveryDocument | undefined, { _id }: Asking): RedeliveryResult {
  const last = delivery?.recoveredBy === _id ? delivery.attempts.at(-1) : undefined;
  if (!last) return 'not_needed';
  return last.code === undefined ? 'delivered' : 'failed';
}

/** Sends again for a recovery. A second call for the same recovery sends nothing, and returns the first result. */
export type Redeliver = ReturnType<typeof createRedeliver>;

export function createRedeliver(deps: RedeliverDeps) {
  const { manual, attempts, retryDelays } = deps;
  const deliveries = durableCollection(deps.deliveries);
  const events = durableCollection(deps.events);

  return {
    /**
     * One more attempt of a delivery that failed or was canceled.
     * @throws GatewayError `webhook_deleted`, `webhook_inactive`: nothing more can be sent
     */
    async deliveries(recovery: Asking, deliveryId: string): Promise<RedeliveryResult> {
      const claim = await manual.claimFor(recovery._id, deliveryId);
      if (!claim) {
        const [delivery] = await findConfirmed(deliveries, { _id: deliveryId });
        const isSent = delivery?.recoveredBy === recovery._id && !delivery.manual;
        // another attempt was under way
        if (!isSent && recoverableStates.some((state) => state === delivery?.state)) return 'in_flight';
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

    /** Delivers an event that was missed, on a schedule that starts now. */
    async events(recovery: Asking, eventId: string): Promise<RedeliveryResult> {
      const { webhookId } = recovery;
      const event = await findOneConfirmed(events, { _id: eventId }, { projection: { body: 0 } });
      if (!event) return 'not_needed';
      const delivery = firstDelivery(event, webhookId, attemptsAllowed(retryDelays, event.test));
      const { _id } = delivery;
      // unless it is stored; due at once, by the database's clock
      const now = { dueAt: '$$NOW', claimableAt: '$$NOW', createdAt: '$$NOW' };
      const insert = insertOnly({ ...delivery, recoveredBy: recovery._id }, now, 'eventId');
      await deliveries.updateOne({ _id }, insert, { upsert: true });
      // only after the delivery is stored, so that the event cannot be missed
      await events.updateOne(
        { _id: eventId, userId: event.userId, skipped: webhookId },
        { $pull: { skipped: webhookId }, $addToSet: { targets: webhookId }, $set: { targetsAdded: true } },
      );
      // outside the scheduler's limits: a recovery has its own pace
      await attempts.make(attempts.prepare(refOf(delivery)).prepared);
      const [stored] = await findConfirmed(deliveries, { _id });
      const isWaiting = stored?.state === 'pending' && stored.attempts.length === 0;
      return isWaiting ? 'in_flight' : resultOf(stored, recovery);
    },
  };
}
