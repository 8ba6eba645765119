import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../errors.ts';
import type { ClaimEvents, LeasedEvent, SettleSubscribers } from '../events/outbox.ts';
import type { InFlightLimit } from '../fairness/in-flight-limit.ts';
import { checkUserId, isId } from '../ids.ts';
import type { DatabaseBudget } from '../mongo/connection/availability.ts';
import type { PendingWork } from '../mongo/periodic.ts';
import type { Logger } from '../options/options.ts';
import type { Attempts, AttemptWait } from './attempt.ts';
import { type FanOut, firstDelivery } from './fan-out.ts';
import { type DeliveryHistory, type DerivedDeliveries, deliveryNotFound, type ShownDelivery } from './history.ts';
import { attemptInFlight, type ManualAttempts, webhookInactive } from './manual-attempt.ts';
import { type Claim, refOf } from './model.ts';

/** How long a response waits for the outcome of an attempt: longer than any attempt takes. Milliseconds. */
const outcomeWait = 35_000;
/** How often the wait checks whether the attempt still waits for its receiver, or has an outcome. Milliseconds. */
const lookInterval = 100;

/** A delivery, and whether the requested attempt has ended. */
export interface ResendResult {
  readonly delivery: ShownDelivery;
  readonly ended: boolean;
}

export interface ResendDeps {
  readonly manual: ManualAttempts;
  readonly history: Pick<DeliveryHistory, 'get'>;
  readonly derivedDeliveries: Pick<DerivedDeliveries, 'eventOf'>;
  readonly take: ClaimEvents;
  readonly settleSubscribers: SettleSubscribers;
  readonly fanOut: Pick<FanOut, 'store'>;
  /** How long an event is held while its deliveries are stored. Milliseconds. */
  readonly lease: number;
  readonly hasEnded: AttemptWait['hasEnded'];
  readonly pendingWork: PendingWork;
  /** Limits how many resends of an account run at once. */
  readonly limit: InFlightLimit;
  readonly logger: Logger;
  /** How long to wait for the outcome. Milliseconds. @default 35_000 */
  readonly wait?: number;
}

/**
 * Makes one more attempt now and waits for its outcome.
 * @throws GatewayError `delivery_not_found`, `attempt_in_flight`, `webhook_deleted`, `webhook_inactive`, `event_deleted`,
 *   `rate_limit_exceeded`
 */
export type Resend = (userId: string, deliveryId: string, budget: DatabaseBudget) => Promise<ResendResult>;

const noop = () => {};

export function createResend(deps: ResendDeps): Resend {
  const { manual, history, pendingWork, limit, logger, wait = outcomeWait } = deps;

  /**
   * Stores a delivery that is not stored yet, with all others of its event, for any worker to claim. Resolves to `false` if a process
   * holds the event.
   */
  async function store(userId: string, deliveryId: string): Promise<boolean> {
    const event = await deps.derivedDeliveries.eventOf(userId, deliveryId);
    const [taken] = event ? await deps.take([event], deps.lease) : [];
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
      if (claiming) pendingWork.add(claiming.then((late) => late && manual.giveBack(late)).then(noop, noop));
      throw error;
    });
    if (claim) return claim;
    if (await budget.run(() => store(userId, deliveryId))) return claimFor(userId, deliveryId, budget);
    await budget.run(() => history.get(userId, deliveryId));
    throw attemptInFlight();
  }

  return async function resend(userId, deliveryId, budget) {
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

/** Makes the one attempt of a test event that this process holds, outside the scheduler's limits. `ended` never rejects. */
export type MakeTestAttempt = (event: LeasedEvent) => { readonly deliveryId: string; readonly ended: Promise<void> };

export function createMakeTestAttempt(fanOut: Pick<FanOut, 'firstAttempt'>, attempts: Attempts): MakeTestAttempt {
  return function makeTestAttempt({ event, lease }) {
    const [webhookId = ''] = event.targets;
    const delivery = firstDelivery(event, webhookId, 1);
    const { _id: deliveryId } = delivery;

    async function make(): Promise<void> {
      const first = lease && (await fanOut.firstAttempt({ event, lease }));
      // if the lease has lapsed, the delivery was stored for any worker to claim
      const preparing = first ? attempts.prepareFirst(first) : attempts.prepare({ deliveryId, attempt: 1 }).prepared;
      return attempts.make(refOf(delivery), preparing);
    }

    return { deliveryId, ended: make().catch(noop) };
  };
}

/** What is sent. */
interface TestEvent {
  readonly type: string;
  /** @default the example of the type */
  readonly data?: Record<string, unknown>;
}

/** The fields of a webhook that a test event needs. */
interface Target {
  readonly active: boolean;
  readonly events: readonly string[];
}

export interface SendTestDeps {
  /**
   * Unless `suffices` is true of the webhook that a usual read finds, a confirmed read follows.
   * @throws GatewayError `webhook_not_found`
   */
  readonly webhook: (userId: string, id: string, suffices: (webhook: Target) => boolean) => Promise<Target>;
  readonly publishTest: (event: TestEvent & { userId: string; webhookId: string }) => Promise<LeasedEvent>;
  readonly attempt: MakeTestAttempt;
  readonly history: DeliveryHistory;
  readonly hasEnded: AttemptWait['hasEnded'];
  /** Limits how many test events of an account run at once. */
  readonly limit: InFlightLimit;
  /** How long to wait for the outcome. Milliseconds. @default 35_000 */
  readonly wait?: number;
}

/**
 * Sends the example of a type, or other data of it, to one webhook, in one attempt, and waits for the outcome.
 * @throws GatewayError `webhook_not_found`, `webhook_inactive`, `unknown_event_type`, `invalid_event_data`, `invalid_value`,
 *   `rate_limit_exceeded`
 */
export type SendTest = (
  userId: string,
  webhookId: string,
  event: TestEvent,
  budget: DatabaseBudget,
) => Promise<ResendResult>;

export function createSendTest(deps: SendTestDeps): SendTest {
  const { webhook, publishTest, attempt, history, limit, wait = outcomeWait } = deps;

  async function send(...[userId, webhookId, test, budget]: Parameters<SendTest>): Promise<ResendResult> {
    const { type } = test;
    const until = performance.now() + wait;
    const takes = ({ active, events }: Target) => active && events.includes(type);
    const { active, events } = await budget.run(() => webhook(userId, webhookId, takes));
    if (!events.includes(type)) {
      const message = `type: the webhook is not subscribed to ${type.slice(0, 60)}, only to ${events.join(', ')}`;
      throw new GatewayError('invalid_value', message, { param: 'type' });
    }
    if (!active) throw webhookInactive(webhookId);
    const event = await budget.run(() => publishTest({ ...test, userId, webhookId }));
    const { deliveryId, ended } = attempt(event);
    const hasEnded = await deps.hasEnded(ended, deliveryId, until - performance.now(), budget);
    for (;;) {
      const delivery = await budget.run(() => history.get(userId, deliveryId));
      // waiting for the receiver does not count
      budget.renew();
      if (delivery.state !== 'pending') return { delivery, ended: true };
      if (!hasEnded || performance.now() > until) return { delivery, ended: false };
      await sleep(lookInterval);
    }
  }

  return async function sendTest(userId, webhookId, test, budget) {
    const leave = limit.enter(userId);
    try {
      return await send(userId, webhookId, test, budget);
    } finally {
      leave();
    }
  };
}
