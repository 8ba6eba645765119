import { GatewayError } from '../../errors.ts';
import type { InFlightLimit } from '../../fairness/in-flight-limit.ts';
import { checkUserId, isId } from '../../ids.ts';
import type { DatabaseBudget } from '../../mongo/connection/availability.ts';
import type { Logger } from '../../options/options.ts';
import type { Claim } from '../attempt/claims.ts';
import type { Background } from '../background.ts';
import type { StoreDelivery } from '../fan-out/store-delivery.ts';
import { type DeliveryHistory, deliveryNotFound, type ShownDelivery } from '../history.ts';
import type { AttemptWait } from './attempt-wait.ts';
import { attemptInFlight, type MakeManualAttempt } from './manual-attempt.ts';
import type { ManualClaims } from './manual-claims.ts';

/** How long an answer waits for the outcome of an attempt: longer than any attempt takes. Milliseconds. */
export const outcomeWait = 35_000;

/** A delivery, and whether the attempt that was asked for has ended. */
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
  readonly background: Background;
  /** Bounds what an account resends at once. */
  readonly limit: InFlightLimit;
  readonly logger: Logger;
  /** How long the answer waits for the outcome. Milliseconds. @default 35_000 */
  readonly wait?: number;
}

/**
 * Makes one more attempt now and waits for what comes of it.
 * @throws GatewayError `delivery_not_found`, `attempt_in_flight`, `webhook_deleted`, `webhook_inactive`, `event_deleted`,
 *   `rate_limit_exceeded`
 */
export type Resend = (userId: string, deliveryId: string, budget: DatabaseBudget) => Promise<ResendResult>;

const noop = () => {};

export function createResend(deps: ResendDeps): Resend {
  const { claims, attempt, history, background, limit, logger, wait = outcomeWait } = deps;

  async function claimFor(userId: string, deliveryId: string, budget: DatabaseBudget): Promise<Claim> {
    let claiming: Promise<Claim | null> | undefined;
    const begin = () => {
      claiming = claims.claim(userId, deliveryId);
      return claiming;
    };
    const claim = await budget.run(begin).catch((error: unknown) => {
      // one that comes late is nobody's
      if (claiming) background.add(claiming.then((late) => late && claims.release(late)).then(noop, noop));
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
    const made = attempt(claim).finally(leave);
    // it goes on when nobody waits for it any more
    background.add(
      made.then(noop, (error: unknown) => {
        if (error instanceof GatewayError) return;
        logger.error('a manual attempt could not be made', { deliveryId, reason: String(error) });
      }),
    );
    const ended = await deps.hasEnded(made, deliveryId, wait, budget);
    return { delivery: await budget.run(() => history.get(userId, deliveryId)), ended };
  };
}
