import { randomUUID } from 'node:crypto';
import { durableCollection } from '../events/model.ts';
import type { AttemptRecord, CancelReason, DeliveryDocument, DeliveryModel } from './model.ts';

/** The right to make one attempt, until the lease lapses. */
export interface Claim {
  readonly delivery: DeliveryDocument;
  /** Fences every write about the attempt: a worker that lost its lease changes nothing. */
  readonly token: string;
  /** When the attempt was claimed, by the database's clock. */
  readonly startedAt: Date;
}

/** What follows an attempt: the end of the delivery, or another attempt in so many milliseconds. */
export type Next = { readonly state: 'delivered' | 'failed' } | { readonly retryIn: number };

/** An attempt as its maker knows it; number and start are the claim's. */
export type AttemptResult = Omit<AttemptRecord, 'number' | 'startedAt'>;

/**
 * Everything that changes a delivery once it exists. Each call stands for itself, so that calls made at the same
 * moment can be grouped into one write behind this interface.
 */
export interface Claims {
  /** Takes the attempt if it is due and nobody has it, else `null`. */
  claim(deliveryId: string, attempt: number): Promise<Claim | null>;
  /** Milliseconds until the attempt is due; `null` when somebody has it or it was made. */
  dueIn(deliveryId: string, attempt: number): Promise<number | null>;
  /** Extends the leases that are still held. */
  renew(claims: readonly Claim[]): Promise<void>;
  /** Records the attempt and what follows; `false` when the claim was lost. */
  finish(claim: Claim, result: AttemptResult, next: Next): Promise<boolean>;
  /** Ends the delivery without an attempt; `false` when the claim was lost. */
  cancel(claim: Claim, reason: CancelReason): Promise<boolean>;
  /** Gives the attempt back unmade, to be claimed again in `wait` ms. */
  release(claim: Claim, wait: number): Promise<void>;
}

/** Durations are milliseconds. */
export interface ClaimsDeps {
  readonly deliveries: DeliveryModel;
  /** Names the worker in its leases. */
  readonly owner: string;
  /** How long a claim lasts unless renewed. */
  readonly lease: number;
  /** How long an ended delivery is kept. */
  readonly retention: number;
}

const inMs = (ms: number) => ({ $add: ['$$NOW', ms] });

/** Claims, one write each, judged by the database's clock. */
export function createClaims({ deliveries, owner, lease, retention }: ClaimsDeps): Claims {
  const collection = durableCollection(deliveries);
  const held = ({ delivery, token }: Claim) => ({ _id: delivery._id, 'lease.token': token });
  const ended = { endedAt: '$$NOW', expiresAt: inMs(retention), claimableAt: '$$REMOVE' };

  function following(next: Next) {
    if ('state' in next) return { state: next.state, ...ended };
    return { attempt: { $add: ['$attempt', 1] }, dueAt: inMs(next.retryIn), claimableAt: inMs(next.retryIn) };
  }

  return {
    async claim(deliveryId, attempt) {
      const token = randomUUID();
      const delivery = await collection.findOneAndUpdate(
        { _id: deliveryId, state: 'pending', attempt, $expr: { $lte: ['$claimableAt', '$$NOW'] } },
        [
          {
            $set: {
              lease: { owner, token, startedAt: '$$NOW' },
              claimableAt: inMs(lease),
              starts: { $add: ['$starts', 1] },
            },
          },
        ],
        { returnDocument: 'after' },
      );
      return delivery?.lease ? { delivery, token, startedAt: delivery.lease.startedAt } : null;
    },
    async dueIn(deliveryId, attempt) {
      const [found] = await collection
        .aggregate<{ wait: number }>([
          { $match: { _id: deliveryId, state: 'pending', attempt, lease: null } },
          { $project: { wait: { $max: [0, { $subtract: ['$claimableAt', '$$NOW'] }] } } },
        ])
        .toArray();
      return found?.wait ?? null;
    },
    async renew(claims) {
      await collection.updateMany(
        {
          _id: { $in: claims.map(({ delivery }) => delivery._id) },
          'lease.token': { $in: claims.map(({ token }) => token) },
        },
        [{ $set: { claimableAt: inMs(lease) } }],
      );
    },
    async finish(claim, result, next) {
      const record = { number: claim.delivery.attempt, startedAt: claim.startedAt, ...result };
      const { matchedCount } = await collection.updateOne(held(claim), [
        {
          $set: {
            attempts: { $concatArrays: ['$attempts', [{ $literal: record }]] },
            lease: null,
            starts: 0,
            ...following(next),
          },
        },
      ]);
      return matchedCount === 1;
    },
    async cancel(claim, reason) {
      const { matchedCount } = await collection.updateOne(held(claim), [
        { $set: { state: 'canceled', reason, lease: null, starts: 0, ...ended } },
      ]);
      return matchedCount === 1;
    },
    async release(claim, wait) {
      await collection.updateOne(held(claim), [
        { $set: { lease: null, starts: { $subtract: ['$starts', 1] }, claimableAt: inMs(wait) } },
      ]);
    },
  };
}
