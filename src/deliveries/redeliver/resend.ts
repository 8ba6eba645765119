import { GatewayError } from '../../errors.ts';
import type { ClaimEvents } from '../../events/store/claim-events.ts';
import type { SettleSubscribers } from '../../events/store/settle-subscribers.ts';
import type { InFlightLimit } from '../../fairness/in-flight-limit.ts';
import { checkUserId, isId } from '../../ids.ts';
import type { DatabaseBudget } from '../../mongo/connection/availability.ts';
import type { Logger } from '../../options/options.ts';
import type { Claim } from '../attempt/claims/claim.ts';
import type { FanOut } from '../fan-out/fan-out.ts';
import type { ShownDelivery } from '../lists/delivery-page.ts';
import type { DerivedDeliveries } from '../lists/derived-deliveries.ts';
import { type DeliveryHistory, deliveryNotFound } from '../lists/history.ts';
import type { PendingWork } from '../pending-work.ts';
import type { AttemptWait } from './attempt-wait.ts';
import { attemptInFlight, type MakeManualAttempt } from './manual-attempt.ts';
import type { ManualClaims } from './manual-claims.ts';

/** How long a response waits for the outcome of an attempt: longer than any attempt takes. Milliseconds. */
export const outcomeWait = 35_000;

/** Stores a delivery that is not stored yet, unless a process holds its event. Resolves with whether it was stored. */
export type StoreDelivery = (userId: string, deliveryId: string) => Promise<boolean>;

/** Stores all deliveries of the event for any worker to claim. Deliveries that are stored already stay as they are. */
export function createStoreDelivery(deps: {
  readonly derivedDeliveries: Pick<DerivedDeliveries, 'eventOf'>;
  readonly take: ClaimEvents;
  readonly settleSubscribers: SettleSubscribers;
  readonly fanOut: Pick<FanOut, 'store'>;
  /** How long the event is held meanwhile. Milliseconds. */
  readonly lease: number;
}): StoreDelivery {
  const { derivedDeliveries, take, settleSubscribers, fanOut } = deps;

  return async function storeDelivery(userId, deliveryId) {
    const event = await derivedDeliveries.eventOf(userId, deliveryId);
    const [taken] = event ? await take([event], deps.lease) : [];
    if (!taken) return false;
    await fanOut.store({ event: await settleSubscribers(taken.event), lease: taken.lease });
    return true;
  };
}

/** A delivery, and whether the requested attempt has ended. */
export interface ResendResult {
  readonly delivery: ShownDelivery;
  readonly ended: boolean;
}

export interface ResendDeps {
  readonly claims: ManualClaims;
  readonly attempt: MakeManualAttempt;
  readonly store: StoreDelivery;
  readonly history: Pick<DeliveryHistory, 'get'>;
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
  const { claims, attempt, history, pendingWork, limit, logger, wait = outcomeWait } = deps;

  async function claimFor(userId: string, deliveryId: string, budget: DatabaseBudget): Promise<Claim> {
    let claiming: Promise<Claim | null> | undefined;
    const begin = () => {
      claiming = claims.claim(userId, deliveryId);
      return claiming;
    };
    const claim = await budget.run(begin).catch((error: unknown) => {
      // a claim that arrives late is given back
      if (claiming) pendingWork.add(claiming.then((late) => late && claims.release(late)).then(noop, noop));
      throw error;
    });
    if (claim) return claim;
    const isStored = await budget.run(() => deps.store(userId, deliveryId));
    if (isStored) return claimFor(userId, deliveryId, budget);
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
    const result = attempt(claim).finally(leave);
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
