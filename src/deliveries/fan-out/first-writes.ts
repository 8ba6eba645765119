import { randomUUID } from 'node:crypto';
import type { FanOutLease } from '../../events/store/stored-event.ts';
import { type DatabaseClock, timeSince } from '../../mongo/clock.ts';
import { type AttemptResult, attemptRecordOf, type Claim, type Next } from '../attempt/claims/claim.ts';
import type { Claims, ClaimsDeps } from '../attempt/claims/claims.ts';
import type { LeaseRenewal } from '../attempt/claims/lease-renewal.ts';
import type { DeliveryDocument } from '../model.ts';
import type { FanOutObserver } from './fan-out-observer.ts';
import { createInsertDeliveries } from './insert-deliveries.ts';
import { UnwrittenDeliveries, type UnwrittenDeliveriesOptions } from './unwritten-deliveries.ts';

/** Durations are milliseconds. */
export interface FirstWritesDeps extends ClaimsDeps, UnwrittenDeliveriesOptions {
  readonly claims: Claims;
  readonly leases: Pick<LeaseRenewal, 'hold'>;
  readonly clock: DatabaseClock;
  /** @default none */
  readonly fanOutObserver?: Pick<FanOutObserver, 'inserted'>;
}

/**
 * Writes deliveries whose first attempt is made before they are stored, under the lease of their event. The outcome is their
 * first write. The `_id`, derived from event and webhook, is the fence: a second first write changes nothing.
 */
export interface FirstWrites {
  /** The same claims, which insert the outcome if the delivery is not stored yet. */
  readonly claims: Claims;
  /** Claims a delivery that is not stored yet. `whenStored` resolves when it is stored, and rejects if this process will not store it. */
  begin(delivery: DeliveryDocument, lease: FanOutLease): { readonly claim: Claim; readonly whenStored: Promise<void> };
  /** Stores a delivery for any worker to claim. Resolves with whether it is new; does nothing if it is stored already. */
  store(delivery: DeliveryDocument): Promise<boolean>;
}

export function createFirstWrites(deps: FirstWritesDeps): FirstWrites {
  const { claims, leases, clock, owner, lease, retention } = deps;
  const { insert, insertRetry } = createInsertDeliveries(deps.deliveries, deps.fanOutObserver?.inserted);
  const unwritten = new UnwrittenDeliveries(insertClaimed, deps);

  /** The delivery as it is once it has ended. */
  function ended(delivery: DeliveryDocument, endedAt: Date, more: Partial<DeliveryDocument>): DeliveryDocument {
    const { claimableAt: _, ...rest } = delivery;
    return { ...rest, ...more, endedAt, expiresAt: new Date(endedAt.getTime() + retention) };
  }

  async function insertOutcome(claim: Claim, result: AttemptResult, next: Next): Promise<boolean> {
    const { delivery } = claim;
    const attempts = [attemptRecordOf(claim, result)];
    // from the same reading of the clock as the start: another reading may be a little earlier
    const endedAt = new Date(claim.startedAt.getTime() + result.durationMs);
    if ('state' in next) return insert(ended(delivery, endedAt, { state: next.state, attempts }));
    return insertRetry({ document: { ...delivery, attempt: delivery.attempt + 1, attempts }, retryIn: next.retryIn });
  }

  /** @throws if it is unknown whether it was stored */
  async function insertClaimed(claim: Claim): Promise<boolean> {
    const { delivery, token, startedAt } = claim;
    // taken before the clock is read: a process that stands still in between holds its lease for less time, not for more
    const askedAt = performance.now();
    const claimableAt = new Date((await clock.now()).getTime() + lease);
    const isNew = await insert({ ...delivery, lease: { owner, token, startedAt }, claimableAt, starts: 1 });
    // an earlier try may have stored it and lost the answer: renewing the lease tells
    leases.hold(claim, isNew ? askedAt + lease : claim.heldUntil);
    return isNew;
  }

  return {
    claims: {
      ...claims,
      async finish(claim, result, next) {
        const isFirst = await unwritten.writeFirst(claim, () => insertOutcome(claim, result, next));
        return isFirst || claims.finish(claim, result, next);
      },
      async cancel(claim, reason) {
        const cancel = async () => insert(ended(claim.delivery, await clock.now(), { state: 'canceled', reason }));
        return (await unwritten.writeFirst(claim, cancel)) || claims.cancel(claim, reason);
      },
      async release(claim, wait) {
        const insertDue = async () => {
          const claimableAt = new Date((await clock.now()).getTime() + wait);
          return insert({ ...claim.delivery, claimableAt });
        };
        if (!(await unwritten.writeFirst(claim, insertDue))) await claims.release(claim, wait);
      },
      forget: (claim) => unwritten.forget(claim),
    },
    begin(delivery, { heldUntil, since }) {
      const claim = { delivery, token: randomUUID(), startedAt: timeSince(since), heldUntil };
      return { claim, whenStored: unwritten.add(claim) };
    },
    store: insert,
  };
}
