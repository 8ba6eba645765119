import { randomUUID } from 'node:crypto';
import { createBatcher } from '../../../mongo/batcher.ts';
import { fromNow } from '../../../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../../../mongo/collection.ts';
import { findConfirmed } from '../../../mongo/confirmed-reads.ts';
import { TimeoutError } from '../../../mongo/with-timeout.ts';
import type { DeliveryDocument, DeliveryModel } from '../../model.ts';
import type { AttemptKey } from '../attempt-ref.ts';
import type { Claim } from './claim.ts';

/** Attempts in one write. */
const maxSize = 500;
/** Writes at the same time. */
const concurrency = 2;

/** One condition for any number of attempts: an id and its number belong together. */
function filterFor(attempts: readonly AttemptKey[]) {
  const numbers = [...new Set(attempts.map(({ attempt }) => attempt))];
  const idsOf = (number: number) =>
    attempts.filter(({ attempt }) => attempt === number).map(({ deliveryId }) => deliveryId);
  return { $or: numbers.map((attempt) => ({ _id: { $in: idsOf(attempt) }, attempt })) };
}

type Deliveries = ReturnType<typeof durableCollection<DeliveryDocument>>;

/**
 * Frees the attempts at once, whether they were claimed or not, and takes back their start. Another process may have claimed
 * them since: its lease stays. Best effort, and acknowledged by one member, because no majority may be reachable.
 */
async function giveBack(collection: Deliveries, attempts: readonly AttemptKey[], token: string): Promise<void> {
  const isClaimed = { $eq: ['$lease.token', token] };
  const isOthers = { $and: [{ $ne: ['$lease', null] }, { $not: isClaimed }] };
  const starts = { $max: [{ $cond: [isOthers, 1, 0] }, { $subtract: ['$starts', 1] }] };
  const lease = { $cond: [isClaimed, null, '$lease'] };
  const claimableAt = { $cond: [isClaimed, '$$NOW', '$claimableAt'] };
  await collection
    .updateMany(
      { state: 'pending', starts: { $gt: 0 }, ...filterFor(attempts) },
      [{ $set: { starts, lease, claimableAt } }],
      { writeConcern: { w: 1 } },
    )
    .catch(() => {});
}

/** The deliveries claimed with this token. A claim that is overlooked would lapse and count as a crashed attempt. */
async function readClaimed(
  collection: Deliveries,
  token: string,
  attempts: readonly AttemptKey[],
  atLeast: number,
): Promise<DeliveryDocument[]> {
  const filter = { _id: { $in: attempts.map(({ deliveryId }) => deliveryId) }, 'lease.token': token };
  const claimed = await collection.find(filter, inOneBatch).toArray();
  return claimed.length >= atLeast ? claimed : findConfirmed(collection, filter);
}

/** Claims attempts that are due, many in one write. Durations are milliseconds. */
export function createClaimAttempt({
  deliveries,
  owner,
  lease,
}: {
  readonly deliveries: DeliveryModel;
  /** Names the worker in its leases. */
  readonly owner: string;
  /** How long a claim lasts unless renewed. */
  readonly lease: number;
}): (attempt: AttemptKey) => Promise<Claim | null> {
  const collection = durableCollection(deliveries);

  /** Resolves to the number of claimed attempts. */
  async function claim(attempts: readonly AttemptKey[], token: string): Promise<number> {
    const { matchedCount } = await collection.updateMany(
      {
        state: 'pending',
        ...filterFor(attempts),
        'lease.token': { $ne: token },
        $expr: { $lte: ['$claimableAt', '$$NOW'] },
      },
      [
        {
          $set: {
            lease: { owner, token, startedAt: '$$NOW' },
            claimableAt: fromNow(lease),
            starts: { $add: ['$starts', 1] },
          },
        },
      ],
    );
    return matchedCount;
  }

  /** @throws if it is not known in time what was claimed, or the leases have ended meanwhile */
  async function claimWithToken(
    token: string,
    attempts: readonly AttemptKey[],
    until: number,
  ): Promise<DeliveryDocument[]> {
    // the driver does not retry an update of many documents; what has this token already is not claimed twice
    const count = await claim(attempts, token).catch(() => claim(attempts, token));
    const claimed = await readClaimed(collection, token, attempts, count);
    if (performance.now() < until) return claimed;
    throw new TimeoutError('the database confirmed claims only after their leases had ended');
  }

  const claiming = createBatcher<AttemptKey, Claim | null>({
    maxSize,
    concurrency,
    async write(attempts) {
      const token = randomUUID();
      const heldUntil = performance.now() + lease;
      const claimed = await claimWithToken(token, attempts, heldUntil).catch(async (error: unknown) => {
        await giveBack(collection, attempts, token);
        throw error;
      });
      const byId = new Map(claimed.map((delivery) => [delivery._id, delivery]));
      return attempts.map(({ deliveryId }) => {
        const delivery = byId.get(deliveryId);
        // two callers want it, but only one gets it
        byId.delete(deliveryId);
        return delivery?.lease ? { delivery, token, startedAt: delivery.lease.startedAt, heldUntil } : null;
      });
    },
  });

  return claiming.add;
}
