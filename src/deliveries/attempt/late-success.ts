import { fromNow } from '../../mongo/clock.ts';
import { durableCollection } from '../../mongo/collection.ts';
import type { AttemptRecord, DeliveryModel } from '../model.ts';
import { attemptRecordOf } from './claims/claim.ts';
import type { Claims } from './claims/claims.ts';

export interface LateSuccessDeps {
  readonly deliveries: DeliveryModel;
  /** How long a delivery is kept after its end. Milliseconds. */
  readonly retention: number;
}

/**
 * Records an attempt whose claim was lost before it was recorded. Another process may have made it again, but a 2xx counts: the
 * receiver has the event, and may have refused the repetition. A failure is not recorded.
 * @returns whether the attempt is recorded, now or before
 */
export type RecordLate = (deliveryId: string, record: AttemptRecord) => Promise<boolean>;

const isDelivered = { $eq: ['$state', 'delivered'] };

/** The fields that a success sets, whatever the delivery's state was. @param retention milliseconds */
export function toDelivered(retention: number) {
  return {
    state: 'delivered',
    reason: '$$REMOVE',
    lease: null,
    starts: 0,
    claimableAt: '$$REMOVE',
    endedAt: { $cond: [isDelivered, '$endedAt', '$$NOW'] },
    expiresAt: { $cond: [isDelivered, '$expiresAt', fromNow(retention)] },
  };
}

/** The attempts with this one added; a success replaces the attempt of the same number. */
function attemptsWith(record: AttemptRecord) {
  const { number } = record;
  const added = { $concatArrays: ['$attempts', [{ $literal: record }]] };
  if (number === undefined) return added;
  const isSame = { $eq: ['$$this.number', number] };
  const replaced = { $map: { input: '$attempts', in: { $cond: [isSame, { $literal: record }, '$$this'] } } };
  return { $cond: [{ $in: [number, '$attempts.number'] }, replaced, added] };
}

export function createRecordLate({ deliveries, retention }: LateSuccessDeps): RecordLate {
  const collection = durableCollection(deliveries);

  return async function recordLate(_id, record) {
    const { number, startedAt, code } = record;
    const same = number === undefined ? { manual: true as const, startedAt } : { number, startedAt };
    if (await collection.findOne({ _id, attempts: { $elemMatch: same } }, { projection: { _id: 1 } })) return true;
    if (code !== undefined) return false;
    const hasSucceeded = { $elemMatch: { number, code: { $exists: false } } };
    const filter = { _id, ...(number !== undefined && { attempts: { $not: hasSucceeded } }) };
    const attempt = { $cond: [{ $eq: ['$state', 'pending'] }, number ?? '$attempt', '$attempt'] };
    const set = { attempts: attemptsWith(record), attempt, ...toDelivered(retention) };
    const { matchedCount } = await collection.updateOne(filter, [{ $set: set }]);
    return matchedCount === 1;
  };
}

/**
 * The same claims, except that a success counts even if the claim was lost.
 * @param onDelivered called when such a success has ended a delivery
 */
export function withLateSuccess(
  claims: Claims,
  recordLate: RecordLate,
  onDelivered: (deliveryId: string) => void,
): Claims {
  return {
    ...claims,
    async finish(claim, result, next) {
      if (await claims.finish(claim, result, next)) return true;
      const { _id: deliveryId } = claim.delivery;
      const isRecorded = await recordLate(deliveryId, attemptRecordOf(claim, result));
      if (isRecorded && result.code === undefined) onDelivered(deliveryId);
      return isRecorded;
    },
  };
}
