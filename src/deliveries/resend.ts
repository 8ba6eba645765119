import { setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseAccess } from '../database-access.ts';
import { GatewayError } from '../errors.ts';
import { checkUserId, isId } from '../ids.ts';
import type { Logger } from '../options.ts';
import type { Background } from './background.ts';
import type { Claim } from './claims.ts';
import { type DeliveryHistory, deliveryNotFound, type ShownDelivery } from './history.ts';
import type { InFlightLimit } from './in-flight-limit.ts';
import { attemptInFlight, type MakeManualAttempt } from './manual-attempt.ts';
import type { ManualClaims } from './manual-claims.ts';

/** How long an answer waits for the outcome of an attempt: longer than any attempt takes. Milliseconds. */
export const outcomeWait = 35_000;

/** How long the database may take before there is an attempt to wait for: what recognising a caller leaves of 5 s. Milliseconds. */
export const claimWait = 3_000;

/** A delivery, and whether the attempt that was asked for has ended. */
export interface Outcome {
  readonly delivery: ShownDelivery;
  readonly ended: boolean;
}

export interface ResendDeps {
  readonly claims: ManualClaims;
  readonly attempt: MakeManualAttempt;
  readonly history: Pick<DeliveryHistory, 'get'>;
  readonly background: Background;
  /** Bounds what an account resends at once. */
  readonly limit: InFlightLimit;
  /** Bounds how long the claim is waited for. @default it takes as long as the driver lets it */
  readonly database?: Pick<DatabaseAccess, 'bound'> | undefined;
  readonly logger: Logger;
  /** How long the answer waits for the outcome. Milliseconds. @default 35_000 */
  readonly wait?: number;
}

/**
 * Makes one more attempt now and waits for what comes of it.
 * @throws GatewayError `delivery_not_found`, `attempt_in_flight`, `webhook_deleted`, `webhook_inactive`, `event_deleted`,
 *   `rate_limit_exceeded`
 */
export type Resend = (userId: string, deliveryId: string) => Promise<Outcome>;

export function createResend(deps: ResendDeps): Resend {
  const { claims, attempt, history, background, limit, database, logger, wait = outcomeWait } = deps;

  async function claimFor(userId: string, deliveryId: string): Promise<Claim> {
    const claim = await claims.claim(userId, deliveryId);
    if (claim) return claim;
    await history.get(userId, deliveryId);
    throw attemptInFlight();
  }

  /** One that comes when nobody waits for it any more is given back. */
  async function claimInTime(userId: string, deliveryId: string): Promise<Claim> {
    const claiming = claimFor(userId, deliveryId);
    try {
      return await (database?.bound(claiming, claimWait) ?? claiming);
    } catch (error) {
      background.add(claiming.then(claims.release).catch(() => {}));
      throw error;
    }
  }

  return async function resend(userId, deliveryId) {
    checkUserId(userId);
    if (!isId('dlv', deliveryId)) throw deliveryNotFound(deliveryId);
    const leave = limit.enter(userId);
    const claim = await claimInTime(userId, deliveryId).catch((error: unknown) => {
      leave();
      throw error;
    });
    const made = attempt(claim).finally(leave);
    // it goes on when nobody waits for it any more
    background.add(
      made.then(
        () => {},
        (error: unknown) => {
          if (error instanceof GatewayError) return;
          logger.error('a manual attempt could not be made', { deliveryId, reason: String(error) });
        },
      ),
    );
    const ended = await Promise.race([made.then(() => true), sleep(wait, false, { ref: false })]);
    return { delivery: await history.get(userId, deliveryId), ended };
  };
}
