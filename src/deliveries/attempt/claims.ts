import { randomUUID } from 'node:crypto';
import { createBatcher } from '../../mongo/batcher.ts';
import { durableCollection, inOneBatch } from '../../mongo/collection.ts';
import { findConfirmed } from '../../mongo/confirmed-reads.ts';
import { TimeoutError } from '../../mongo/with-timeout.ts';
import { bareWrites } from '../../mongo/writes/bare-writes.ts';
import type { AttemptRecord, CancelReason, DeliveryDocument, DeliveryModel } from '../model.ts';
import { type Change, toStatements } from './claim-changes.ts';
import { createRenewHeld } from './renew-claims.ts';

/** The right to make one attempt, until the lease lapses. */
export interface Claim {
  readonly delivery: DeliveryDocument;
  /** With the delivery's id it fences every write about the attempt: a worker that lost its lease changes nothing. */
  readonly token: string;
  /** When the attempt was claimed, by the database's clock. */
  readonly startedAt: Date;
  /** Until when the lease lasts unless renewed, by `performance.now()` and never later than by the database's clock. */
  readonly heldUntil: number;
}

/** What follows an attempt: the end of the delivery, or another attempt in so many milliseconds. */
export type Next = { readonly state: 'delivered' | 'failed' } | { readonly retryIn: number };

/** An attempt as its maker knows it; number and start are the claim's. */
export type AttemptResult = Omit<AttemptRecord, 'number' | 'startedAt'>;

/** The attempt as it is stored. */
export function recordOf({ delivery, startedAt }: Claim, result: AttemptResult): AttemptRecord {
  return { number: delivery.attempt, startedAt, ...result };
}

/**
 * Everything that changes a delivery once it exists. Each call stands for itself; behind this interface, calls made at
 * the same moment become one write, judged by the database's clock document by document.
 */
export interface Claims {
  /** Takes the attempt if it is due and nobody has it, else `null`. */
  claim(deliveryId: string, attempt: number): Promise<Claim | null>;
  /** Milliseconds until the attempt is due; `null` when somebody has it or it was made. */
  dueIn(deliveryId: string, attempt: number): Promise<number | null>;
  /** Extends the leases that are still held, and tells which they are. */
  renew(claims: readonly Claim[]): Promise<readonly Claim[]>;
  /** Records the attempt and what follows; `false` when the claim was lost. Doing it again does nothing, and says `true` again. */
  finish(claim: Claim, result: AttemptResult, next: Next): Promise<boolean>;
  /** Ends the delivery without an attempt; `false` when the claim was lost. */
  cancel(claim: Claim, reason: CancelReason): Promise<boolean>;
  /** Gives the attempt back unmade, to be claimed again in `wait` ms. */
  release(claim: Claim, wait: number): Promise<void>;
  /** Nothing more is done with the claim: what it has not written is left to a sweep. */
  forget(claim: Claim): void;
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

interface Wanted {
  readonly deliveryId: string;
  readonly attempt: number;
}

/** Claims in one write. */
const claimsMaxSize = 500;
/** Changes in one write: the server looks each of them up among all. */
const changesMaxSize = 200;
const concurrency = 2;
/** How long the outcome of an attempt waits for others: so much more is made twice when the process dies. Milliseconds. */
const outcomeMaxDelay = 5;

const inMs = (ms: number) => ({ $add: ['$$NOW', ms] });

/** One condition for any number of attempts: an id and its number belong together. */
function whichOf(wanted: readonly Wanted[]) {
  const numbers = [...new Set(wanted.map(({ attempt }) => attempt))];
  const idsOf = (number: number) => wanted.filter(({ attempt }) => attempt === number).map((one) => one.deliveryId);
  return { $or: numbers.map((attempt) => ({ _id: { $in: idsOf(attempt) }, attempt })) };
}

/** Claims, judged by the database's clock, in grouped writes. */
export function createClaims({ deliveries, owner, lease, retention }: ClaimsDeps): Claims {
  const collection = durableCollection(deliveries);
  const renewHeld = createRenewHeld(deliveries, 'lease');
  const { update } = bareWrites(deliveries);
  const ended = { endedAt: '$$NOW', expiresAt: inMs(retention), claimableAt: '$$REMOVE' };
  const unheld = { lease: null, starts: 0 };

  function following(next: Next) {
    if ('state' in next) return { state: next.state, ...ended };
    return { attempt: { $add: ['$attempt', 1] }, dueAt: inMs(next.retryIn), claimableAt: inMs(next.retryIn) };
  }

  /** Resolves with how many it has taken. */
  async function take(wanted: readonly Wanted[], token: string): Promise<number> {
    const { matchedCount } = await collection.updateMany(
      {
        state: 'pending',
        ...whichOf(wanted),
        'lease.token': { $ne: token },
        $expr: { $lte: ['$claimableAt', '$$NOW'] },
      },
      [
        {
          $set: {
            lease: { owner, token, startedAt: '$$NOW' },
            claimableAt: inMs(lease),
            starts: { $add: ['$starts', 1] },
          },
        },
      ],
    );
    return matchedCount;
  }

  /**
   * Those that nobody here will make, whether they were taken or not: their leases are free at once, and no start counts.
   * Others may have taken them since, and have their own. Best effort, and by one member: no majority may be in reach.
   */
  async function giveBack(wanted: readonly Wanted[], token: string): Promise<void> {
    const isTaken = { $eq: ['$lease.token', token] };
    const isOthers = { $and: [{ $ne: ['$lease', null] }, { $not: isTaken }] };
    const starts = { $max: [{ $cond: [isOthers, 1, 0] }, { $subtract: ['$starts', 1] }] };
    const lease = { $cond: [isTaken, null, '$lease'] };
    const claimableAt = { $cond: [isTaken, '$$NOW', '$claimableAt'] };
    await collection
      .updateMany(
        { state: 'pending', starts: { $gt: 0 }, ...whichOf(wanted) },
        [{ $set: { starts, lease, claimableAt } }],
        { writeConcern: { w: 1 } },
      )
      .catch(() => {});
  }

  /** Those taken under a token. A lease that nobody knows of would lapse, and count as an attempt that crashed. */
  async function takenBy(token: string, wanted: readonly Wanted[], atLeast: number): Promise<DeliveryDocument[]> {
    const filter = { _id: { $in: wanted.map(({ deliveryId }) => deliveryId) }, 'lease.token': token };
    const taken = await collection.find(filter, inOneBatch).toArray();
    return taken.length >= atLeast ? taken : findConfirmed(collection, filter);
  }

  /** @throws when it is not known in time what was taken, also where the leases have ended meanwhile */
  async function takeUnder(token: string, wanted: readonly Wanted[], until: number): Promise<DeliveryDocument[]> {
    // the driver does not repeat an update of many; what was taken under this token already is not taken again
    const count = await take(wanted, token).catch(() => take(wanted, token));
    const taken = await takenBy(token, wanted, count);
    if (performance.now() < until) return taken;
    throw new TimeoutError('the database has confirmed claims when their leases had ended');
  }

  const taking = createBatcher<Wanted, Claim | null>({
    maxSize: claimsMaxSize,
    concurrency,
    async write(wanted) {
      const token = randomUUID();
      const heldUntil = performance.now() + lease;
      const taken = await takeUnder(token, wanted, heldUntil).catch(async (error: unknown) => {
        await giveBack(wanted, token);
        throw error;
      });
      const byId = new Map(taken.map((delivery) => [delivery._id, delivery]));
      return wanted.map(({ deliveryId }) => {
        const delivery = byId.get(deliveryId);
        // asked for twice, it is given once
        byId.delete(deliveryId);
        return delivery?.lease ? { delivery, token, startedAt: delivery.lease.startedAt, heldUntil } : null;
      });
    },
  });

  const waits = createBatcher<Wanted, number | null>({
    maxSize: claimsMaxSize,
    async write(wanted) {
      const found = await collection
        .aggregate<{ _id: string; attempt: number; wait: number }>([
          { $match: { _id: { $in: wanted.map(({ deliveryId }) => deliveryId) }, state: 'pending', lease: null } },
          { $project: { attempt: 1, wait: { $max: [0, { $subtract: ['$claimableAt', '$$NOW'] }] } } },
        ])
        .toArray();
      const byId = new Map(found.map((one) => [one._id, one]));
      return wanted.map(({ deliveryId, attempt }) => {
        const one = byId.get(deliveryId);
        return one?.attempt === attempt ? one.wait : null;
      });
    },
  });

  const changing = createBatcher<Change, boolean>({
    maxSize: changesMaxSize,
    maxDelay: outcomeMaxDelay,
    async write(changes) {
      const updates = toStatements(changes);
      // what the first try has changed has lost its token, and is looked for below
      const matched = await update(updates).catch(() => update(updates));
      if (matched === changes.length) return changes.map(() => true);
      const ids = changes.map(({ claim }) => claim.delivery._id);
      const found = await findConfirmed(collection, { _id: { $in: ids } });
      const byId = new Map(found.map((delivery) => [delivery._id, delivery]));
      return changes.map(({ claim, isMade }) => {
        const delivery = byId.get(claim.delivery._id);
        // a primary that had been replaced did not meet it
        if (delivery?.lease?.token === claim.token) throw new TimeoutError('a claimed delivery was not changed');
        return delivery !== undefined && isMade(delivery);
      });
    },
  });

  return {
    claim: (deliveryId, attempt) => taking.add({ deliveryId, attempt }),
    dueIn: (deliveryId, attempt) => waits.add({ deliveryId, attempt }),
    renew: (claims) => renewHeld(claims, { claimableAt: inMs(lease) }),
    finish(claim, result, next) {
      const record = recordOf(claim, result);
      return changing.add({
        claim,
        name: 'state' in next ? next.state : `again in ${next.retryIn}`,
        set: { ...unheld, ...following(next) },
        record,
        isMade: (found) =>
          found.attempts.some(
            ({ number, startedAt }) => number === record.number && Number(startedAt) === Number(record.startedAt),
          ),
      });
    },
    cancel(claim, reason) {
      return changing.add({
        claim,
        name: reason,
        set: { state: 'canceled', reason, ...unheld, ...ended },
        // nobody waits for the answer
        isMade: () => false,
      });
    },
    async release(claim, wait) {
      const starts = { $subtract: ['$starts', 1] };
      const set = { lease: null, starts, claimableAt: inMs(wait) };
      await changing.add({ claim, name: `released for ${wait}`, set, isMade: () => true });
    },
    forget() {},
  };
}
