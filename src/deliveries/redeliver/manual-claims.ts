import { randomUUID } from 'node:crypto';
import { fromNow } from '../../mongo/clock.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { confirmAbsent } from '../../mongo/confirmed-reads.ts';
import type { AttemptResult, Claim } from '../attempt/claims/claim.ts';
import type { ClaimsDeps } from '../attempt/claims/claims.ts';
import { createRenewHeld } from '../attempt/claims/renew-claims.ts';
import { createRecordLate, toDelivered } from '../attempt/late-success.ts';
import type { DeliveryState } from '../model.ts';

/** Manual attempts that a delivery keeps; new ones replace the oldest. */
const maxManualAttempts = 50;

/** A recovery, and the states of the deliveries that it sends again. */
export interface RecoveryClaim {
  readonly recoveryId: string;
  readonly states: readonly DeliveryState[];
}

/**
 * Everything that changes a delivery outside its schedule. A manual attempt and a scheduled one exclude each other: neither can
 * be claimed while the other's lease is held.
 */
export interface ManualClaims {
  /** Claims an attempt now, whatever the delivery's state; `null` if one is in flight or there is no such delivery. */
  claim(userId: string, deliveryId: string): Promise<Claim | null>;
  /** The same for a recovery: also `null` if the recovery has sent this delivery before, or there is no need. */
  claimFor(recovery: RecoveryClaim, deliveryId: string): Promise<Claim | null>;
  /** Extends the leases that are still held, and returns those claims. */
  renew(claims: readonly Claim[]): Promise<readonly Claim[]>;
  /** Records the attempt. A success ends the delivery; a failure changes nothing else. `false` if the claim of a failed attempt was lost. */
  finish(claim: Claim, result: AttemptResult): Promise<boolean>;
  /** Gives the attempt back. */
  release(claim: Claim): Promise<void>;
}

const isPending = { $eq: ['$state', 'pending'] };

/** Neither a manual nor a scheduled attempt is in flight; a lapsed lease does not count. */
const isFree = {
  $and: [
    { $lte: [{ $ifNull: ['$manual.until', new Date(0)] }, '$$NOW'] },
    { $or: [{ $eq: ['$lease', null] }, { $lte: ['$claimableAt', '$$NOW'] }] },
  ],
};

/** The attempts with this one added, and without the oldest manual one if there are too many. */
function attemptsWith(record: object) {
  const manual = { $filter: { input: '$attempts', cond: '$$this.manual' } };
  const withoutOldest = {
    $filter: { input: '$attempts', cond: { $ne: ['$$this.startedAt', { $first: '$$manual.startedAt' }] } },
  };
  const others = { $cond: [{ $lt: [{ $size: '$$manual' }, maxManualAttempts] }, '$attempts', withoutOldest] };
  return { $concatArrays: [{ $let: { vars: { manual }, in: others } }, [{ $literal: record }]] };
}

/** Manual claims, by the database's clock. */
export function createManualClaims({ deliveries, owner, lease, retention }: ClaimsDeps): ManualClaims {
  const collection = durableCollection(deliveries);
  const held = ({ delivery, token }: Claim) => ({ _id: delivery._id, 'manual.token': token });

  /** A pending delivery's next attempt may not start before the lease is over, nor before it is due. */
  const notBefore = { $max: ['$dueAt', fromNow(lease)] };
  const outOfTheWay = { lease: null, claimableAt: { $cond: [isPending, notBefore, '$$REMOVE'] } };
  /** A worker has claimed the next attempt only if the lease had lapsed. */
  const isWaiting = { $and: [isPending, { $eq: ['$lease', null] }] };
  const stillOutOfTheWay = { $cond: [isWaiting, notBefore, '$claimableAt'] };
  const backToItsTime = { claimableAt: { $cond: [isWaiting, '$dueAt', '$claimableAt'] } };
  const renewHeld = createRenewHeld(deliveries, 'manual');
  const recordLate = createRecordLate({ deliveries, retention });

  async function take(filter: object, more: object): Promise<Claim | null> {
    const askedAt = performance.now();
    const token = randomUUID();
    const manual = { owner, token, startedAt: '$$NOW', until: fromNow(lease) };
    const delivery = await collection.findOneAndUpdate(filter, [{ $set: { manual, ...outOfTheWay, ...more } }], {
      returnDocument: 'after',
    });
    if (!delivery?.manual) return null;
    return { delivery, token, startedAt: delivery.manual.startedAt, heldUntil: askedAt + lease };
  }

  async function end(claim: Claim, set: object): Promise<boolean> {
    const { matchedCount } = await collection.updateOne(held(claim), [{ $set: { manual: '$$REMOVE', ...set } }]);
    // a replaced primary may not know the claim: it is lost only if a confirmed read does not find it either
    if (matchedCount === 0) await confirmAbsent(collection, held(claim));
    return matchedCount === 1;
  }

  async function release(claim: Claim): Promise<void> {
    await end(claim, { recoveredBy: '$$REMOVE', ...backToItsTime });
  }

  return {
    claim: (userId, deliveryId) => take({ _id: deliveryId, userId, $expr: isFree }, {}),

    claimFor({ recoveryId, states }, deliveryId) {
      const unsent = { $ne: ['$recoveredBy', recoveryId] };
      // a free delivery that still has a lease was claimed by a process that died
      const unfinished = { $ne: [{ $type: '$manual' }, 'missing'] };
      const filter = {
        _id: deliveryId,
        state: { $in: [...states] },
        $expr: { $and: [isFree, { $or: [unsent, unfinished] }] },
      };
      return take(filter, { recoveredBy: recoveryId });
    },

    renew: (claims) => renewHeld(claims, { 'manual.until': fromNow(lease), claimableAt: stillOutOfTheWay }),

    async finish(claim, result) {
      const record = { startedAt: claim.startedAt, manual: true as const, ...result };
      const set = result.code === undefined ? toDelivered(retention) : backToItsTime;
      const isRecorded = await end(claim, { attempts: attemptsWith(record), ...set });
      return isRecorded || recordLate(claim.delivery._id, record);
    },

    release,
  };
}
