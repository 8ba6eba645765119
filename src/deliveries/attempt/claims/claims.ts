import { fromNow } from '../../../mongo/clock.ts';
import type { CancelReason, DeliveryModel } from '../../model.ts';
import { type AttemptResult, attemptRecordOf, type Claim, type Next } from './claim.ts';
import { createClaimAttempt } from './claim-attempts.ts';
import { createChangeClaimed } from './claim-changes.ts';
import { createDueIn } from './due-in.ts';
import { createRenewHeld } from './renew-claims.ts';

/**
 * How scheduled attempts are claimed, and how they change their stored deliveries. Calls made at the same moment share one write, in which the database's clock
 * decides for each delivery by itself.
 */
export interface Claims {
  /** Claims the attempt if it is due and free; otherwise `null`. */
  claim(deliveryId: string, attempt: number): Promise<Claim | null>;
  /** Milliseconds until the attempt is due; `null` if it is claimed or was made. */
  dueIn(deliveryId: string, attempt: number): Promise<number | null>;
  /** Extends the leases that are still held, and returns those claims. */
  renew(claims: readonly Claim[]): Promise<readonly Claim[]>;
  /** Records the attempt and what follows; `false` if the claim was lost. A second call changes nothing and also returns `true`. */
  finish(claim: Claim, result: AttemptResult, next: Next): Promise<boolean>;
  /** Ends the delivery without an attempt; `false` if the claim was lost. */
  cancel(claim: Claim, reason: CancelReason): Promise<boolean>;
  /** Gives the attempt back; it can be claimed again in `wait` ms. */
  release(claim: Claim, wait: number): Promise<void>;
  /** Drops the claim: a sweep finds what it has not written. */
  forget(claim: Claim): void;
}

/** Durations are milliseconds. */
export interface ClaimsDeps {
  readonly deliveries: DeliveryModel;
  /** Names the worker in its leases. */
  readonly owner: string;
  /** How long a claim lasts unless renewed. */
  readonly lease: number;
  /** How long a delivery is kept after its end. */
  readonly retention: number;
}

/** Claims, judged by the database's clock, many in one write. */
export function createClaims({ deliveries, owner, lease, retention }: ClaimsDeps): Claims {
  const renewHeld = createRenewHeld(deliveries, 'lease');
  const claimAttempt = createClaimAttempt({ deliveries, owner, lease });
  const dueIn = createDueIn(deliveries);
  const change = createChangeClaimed(deliveries);
  const ended = { endedAt: '$$NOW', expiresAt: fromNow(retention), claimableAt: '$$REMOVE' };
  const unclaimed = { lease: null, starts: 0 };

  function following(next: Next) {
    if ('state' in next) return { state: next.state, ...ended };
    return { attempt: { $add: ['$attempt', 1] }, dueAt: fromNow(next.retryIn), claimableAt: fromNow(next.retryIn) };
  }

  return {
    claim: (deliveryId, attempt) => claimAttempt({ deliveryId, attempt }),
    dueIn: (deliveryId, attempt) => dueIn({ deliveryId, attempt }),
    renew: (claims) => renewHeld(claims, { claimableAt: fromNow(lease) }),
    finish(claim, result, next) {
      const record = attemptRecordOf(claim, result);
      return change({
        claim,
        name: 'state' in next ? next.state : `again in ${next.retryIn}`,
        set: { ...unclaimed, ...following(next) },
        record,
        isMade: (found) =>
          found.attempts.some(
            ({ number, startedAt }) => number === record.number && Number(startedAt) === Number(record.startedAt),
          ),
      });
    },
    cancel(claim, reason) {
      return change({
        claim,
        name: reason,
        set: { state: 'canceled', reason, ...unclaimed, ...ended },
        // nothing tells it from the cancellation by another worker, which counts it
        isMade: () => false,
      });
    },
    async release(claim, wait) {
      const starts = { $subtract: ['$starts', 1] };
      const set = { lease: null, starts, claimableAt: fromNow(wait) };
      await change({ claim, name: `released for ${wait}`, set, isMade: () => true });
    },
    forget() {},
  };
}
