import { durableCollection } from '../../mongo/collection.ts';
import type { AttemptRecord, DeliveryModel } from '../model.ts';
import { type Claims, recordOf } from './claims.ts';

export interface LateSuccessDeps {
  readonly deliveries: DeliveryModel;
  /** How long an ended delivery is kept. Milliseconds. */
  readonly retention: number;
}

/**
 * Records an attempt whose claim was lost before it could be recorded. Others may have made it again, but a 2xx counts: the
 * receiver has the event, and may have refused the repetition. A failure counts for nothing then.
 * @returns whether the attempt is recorded, now or already
 */
export type RecordLate = (deliveryId: string, record: AttemptRecord) => Promise<boolean>;

const isDelivered = { $eq: ['$state', 'delivered'] };

/** What a success sets, whatever the delivery's state was. @param retention milliseconds */
export function toDelivered(retention: number) {
  return {
    state: 'delivered',
    reason: '$$REMOVE',
    lease: null,
    starts: 0,
    claimableAt: '$$REMOVE',
    endedAt: { $cond: [isDelivered, '$endedAt', '$$NOW'] },
    expiresAt: { $cond: [isDelivered, '$expiresAt', { $add: ['$$NOW', retention] }] },
  };
}

/** The attempts with this one; of those with one number, the one that succeeded is shown. */
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
 * The same claims, for which a success counts also when the claim was lost.
 * @param onDelivered told of a delivery that such a success has ended
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
      const isRecorded = await recordLate(deliveryId, recordOf(claim, result));
      if (isRecorded && result.code === undefined) onDelivered(deliveryId);
      return isRecorded;
    },
  };
}
