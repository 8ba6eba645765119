import { randomUUID } from 'node:crypto';
import type { FanOutLease } from '../events/outbox.ts';
import { createBatcher } from '../mongo/batcher.ts';
import { type DatabaseClock, fromNow, timeSince } from '../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { findConfirmed } from '../mongo/confirmed-reads.ts';
import { LeaseKeeper, Leases } from '../mongo/lease.ts';
import { TimeoutError } from '../mongo/periodic.ts';
import type { Logger } from '../options/options.ts';
import type { RecordedAttempt } from '../webhooks/health/recorder.ts';
import { createDeliveryWrites, FirstWrites, type FirstWritesOptions } from './delivery-writes.ts';
import type { AttemptKey, AttemptRecord, CancelReason, DeliveryDocument, DeliveryModel } from './model.ts';

/** The right to make one attempt, until the lease lapses. */
export interface Claim {
  readonly delivery: DeliveryDocument;
  /** With the delivery's id, the fencing token of every write about the attempt: a worker that lost its lease changes nothing. */
  readonly token: string;
  /** By the database's clock. */
  readonly startedAt: Date;
  /** When the lease ends unless renewed, by `performance.now()`; never later than by the database's clock. */
  readonly heldUntil: number;
}

/** What follows an attempt: the end of the delivery, or another attempt in `retryIn` milliseconds. */
export type Next = { readonly state: 'delivered' | 'failed' } | { readonly retryIn: number };

/** The result of an attempt; its number and start are in the claim. */
export type AttemptResult = Omit<AttemptRecord, 'number' | 'startedAt'>;

/** A recorded attempt, and what it belongs to. */
export interface EndedAttempt extends RecordedAttempt {
  readonly eventId: string;
  readonly userId: string;
  /** Absent if the attempt was asked for. */
  readonly number?: number;
}

/** A delivery whose last attempt on schedule has failed. */
export interface FailedDelivery {
  /** `dlv_…` */
  readonly deliveryId: string;
  /** `evt_…` */
  readonly eventId: string;
  /** The type of the event. */
  readonly eventType: string;
  /** `wh_…` */
  readonly webhookId: string;
  readonly userId: string;
  /** How many attempts there were. */
  readonly attempts: number;
  /** Why the last one failed: `http_500`, `timeout`, … */
  readonly code: string;
  /** The receiver's last status; absent if it did not answer. */
  readonly status?: number;
}

/** Who is told of attempts. */
export interface AttemptListeners {
  /** Called after each recorded attempt. */
  readonly onAttempt: (attempt: EndedAttempt) => void;
  /** Called when a delivery has failed, by the process whose write has ended it. */
  readonly onFailed: (delivery: FailedDelivery) => void;
  /**
   * Called when a delivery has ended, by the process whose write has ended it; not for test events. A resend that succeeds ends a
   * failed or canceled one again.
   * @param code why it failed or was canceled
   */
  readonly onEnded: (state: 'delivered' | 'failed' | 'canceled', code?: string) => void;
}

/** How an attempt was recorded. `late`: its claim was lost, but a success counts all the same. `lost`: it was not recorded. */
export type Recorded = 'recorded' | 'late' | 'lost';

/**
 * The right to make scheduled attempts, and every write under it. Calls made at the same moment share one write, in which the
 * database's clock decides for each delivery by itself.
 */
export interface Claims {
  /** Claims the attempt if it is due and free, and keeps its lease alive; otherwise `null`. */
  claim(attempt: AttemptKey): Promise<Claim | null>;
  /**
   * The claim of a first attempt whose delivery is not stored: the lease of its event holds it until then. `whenStored` resolves
   * when it is stored, and rejects if this process will not store it.
   */
  first(delivery: DeliveryDocument, lease: FanOutLease): { readonly claim: Claim; readonly whenStored: Promise<void> };
  /** Whether this process surely still holds the claim if it writes the request now. */
  maySend(claim: Claim): boolean;
  /** Records the attempt and what follows. A second call changes nothing, and resolves with the same. */
  record(claim: Claim, result: AttemptResult, next: Next): Promise<Recorded>;
  /** Ends the delivery without an attempt, unless the claim was lost. */
  cancel(claim: Claim, reason: CancelReason): Promise<void>;
  /** Gives the attempt back; it can be claimed again in `wait` ms. */
  giveBack(claim: Claim, wait: number): Promise<void>;
  /** Ends the keeping of a claim. A sweep finds what was not written. */
  drop(claim: Claim): void;
  /** Stores a delivery for any worker to claim. Resolves with whether it is new. */
  store(delivery: DeliveryDocument): Promise<boolean>;
}

/** Durations are milliseconds. */
export interface ClaimsDeps extends AttemptListeners, FirstWritesOptions {
  readonly deliveries: DeliveryModel;
  readonly clock: DatabaseClock;
  /** Names the worker in its leases. */
  readonly owner: string;
  /** How long a claim lasts unless renewed. */
  readonly lease: number;
  readonly renewInterval: number;
  /** How long a delivery is kept after its end. */
  readonly retention: number;
  /** Called with the number of deliveries that one command has inserted. @default nobody is */
  readonly onInserted?: (deliveries: number) => void;
  readonly logger: Logger;
}

/** The time that a lease must still last when a request is written, because the request takes time to reach the receiver. Milliseconds. */
export const sendMargin = 500;

/** The lease on one scheduled attempt, in its delivery. */
const attemptLease = { fence: 'lease.token', until: 'claimableAt' } as const;

const unclaimed = { lease: null, starts: 0 } as const;

export function createClaims(deps: ClaimsDeps): Claims {
  const { deliveries, clock, owner, lease: duration, retention, logger } = deps;
  const collection = durableCollection(deliveries);
  const leases = new Leases(collection, { ...attemptLease, duration });
  const keeper = new LeaseKeeper<Claim>({
    name: 'renewing leases',
    renew: async (claims) => {
      const held = claims.map((claim) => ({ _id: claim.delivery._id, fence: claim.token, claim }));
      return (await leases.renew(held)).map(({ claim }) => claim);
    },
    duration,
    interval: deps.renewInterval,
    logger,
  });
  const writes = createDeliveryWrites(deliveries, deps.onInserted);
  const firstWrites = new FirstWrites(storeClaimed, deps);
  const claimDue = createClaimDue(deps);
  const ended = { endedAt: '$$NOW', expiresAt: fromNow(retention), claimableAt: '$$REMOVE' };

  /** Stores a delivery whose first attempt takes long as claimed. @throws if it is unknown whether it was stored */
  async function storeClaimed(claim: Claim): Promise<boolean> {
    const { delivery, token, startedAt } = claim;
    // taken before the clock is read: a process that stands still in between holds its lease for less time, not for more
    const askedAt = performance.now();
    const claimableAt = await inDatabaseTime(duration);
    const isNew = await writes.insert({ ...delivery, lease: { owner, token, startedAt }, claimableAt, starts: 1 });
    // an earlier try may have stored it and lost the answer: renewing the lease tells
    keeper.hold(claim, isNew ? askedAt + duration : claim.heldUntil);
    return isNew;
  }

  async function inDatabaseTime(wait: number): Promise<Date> {
    return new Date((await clock.now()).getTime() + wait);
  }

  /** The delivery as it is stored once it has ended. */
  function endedDelivery(delivery: DeliveryDocument, endedAt: Date, more: Partial<DeliveryDocument>): DeliveryDocument {
    const { claimableAt: _, ...rest } = delivery;
    return { ...rest, ...more, endedAt, expiresAt: new Date(endedAt.getTime() + retention) };
  }

  /** The outcome as the first write of a delivery. */
  function insertOutcome({ delivery, startedAt }: Claim, record: AttemptRecord, next: Next): Promise<boolean> {
    const attempts = [record];
    if ('retryIn' in next) {
      const document = { ...delivery, attempt: delivery.attempt + 1, attempts };
      return writes.insertRetry({ document, retryIn: next.retryIn });
    }
    // from the same reading of the clock as the start: another reading may be a little earlier
    const endedAt = new Date(startedAt.getTime() + record.durationMs);
    return writes.insert(endedDelivery(delivery, endedAt, { state: next.state, attempts }));
  }

  /** The outcome as a change of a stored delivery. */
  function updateOutcome({ delivery, token }: Claim, record: AttemptRecord, next: Next): Promise<boolean> {
    const { number, startedAt } = record;
    const due = 'retryIn' in next ? fromNow(next.retryIn) : undefined;
    const following =
      'retryIn' in next
        ? { attempt: { $add: ['$attempt', 1] }, dueAt: due, claimableAt: due }
        : { state: next.state, ...ended };
    return writes.change({
      deliveryId: delivery._id,
      token,
      name: 'retryIn' in next ? `again in ${next.retryIn}` : next.state,
      set: { ...unclaimed, ...following },
      record,
      isMade: ({ attempts }) =>
        attempts.some((found) => found.number === number && Number(found.startedAt) === Number(startedAt)),
    });
  }

  function tell(claim: Claim, result: AttemptResult, next: Next): void {
    const { delivery, startedAt } = claim;
    const late = startedAt.getTime() - delivery.dueAt.getTime();
    deps.onAttempt({ ...toEndedAttempt(claim, result), number: delivery.attempt, late });
    if ('retryIn' in next || delivery.test) return;
    deps.onEnded(next.state, result.code);
    if (next.state === 'failed') deps.onFailed(toFailedDelivery(claim, result));
  }

  return {
    async claim(attempt) {
      const claim = await claimDue(attempt);
      if (claim) keeper.hold(claim, claim.heldUntil);
      return claim;
    },

    first(delivery, { heldUntil, since }) {
      const claim = { delivery, token: randomUUID(), startedAt: timeSince(since), heldUntil };
      keeper.track(claim, heldUntil);
      return { claim, whenStored: firstWrites.add(claim) };
    },

    maySend: (claim) => keeper.lasts(claim, sendMargin),

    async record(claim, result, next) {
      const record = { number: claim.delivery.attempt, startedAt: claim.startedAt, ...result };
      let recorded: Recorded = 'recorded';
      // the `_id`, derived from event and webhook, is the fence of the first write, and the token that of every other
      const isFirst = await firstWrites.write(claim, () => insertOutcome(claim, record, next));
      if (!isFirst && !(await updateOutcome(claim, record, next))) {
        // the receiver has the event, and may have refused its repetition by another process
        recorded = (await recordLate(collection, claim.delivery._id, record, retention)) ? 'late' : 'lost';
      }
      if (recorded !== 'lost') tell(claim, result, next);
      return recorded;
    },

    async cancel(claim, reason) {
      const { delivery, token } = claim;
      const insert = async () =>
        writes.insert(endedDelivery(delivery, await clock.now(), { state: 'canceled', reason }));
      const isCanceled =
        (await firstWrites.write(claim, insert)) ||
        (await writes.change({
          deliveryId: delivery._id,
          token,
          name: reason,
          set: { state: 'canceled', reason, ...unclaimed, ...ended },
          // nothing tells it from the cancellation by another worker, which counts it
          isMade: () => false,
        }));
      if (isCanceled && !delivery.test) deps.onEnded('canceled', reason);
    },

    async giveBack(claim, wait) {
      const { delivery, token } = claim;
      const insert = async () => writes.insert({ ...delivery, claimableAt: await inDatabaseTime(wait) });
      if (await firstWrites.write(claim, insert)) return;
      const set = { lease: null, starts: { $subtract: ['$starts', 1] }, claimableAt: fromNow(wait) };
      await writes.change({ deliveryId: delivery._id, token, name: `back for ${wait}`, set, isMade: () => true });
    },

    drop(claim) {
      void keeper.drop(claim);
      firstWrites.drop(claim);
    },

    store: writes.insert,
  };
}

export function toEndedAttempt(
  { delivery, startedAt }: Claim,
  { durationMs, status, code }: AttemptResult,
): EndedAttempt {
  return {
    webhookId: delivery.webhookId,
    deliveryId: delivery._id,
    eventId: delivery.eventId,
    userId: delivery.userId,
    at: new Date(startedAt.getTime() + durationMs),
    durationMs,
    ...(status !== undefined && { status }),
    ...(code !== undefined && { code }),
  };
}

function toFailedDelivery({ delivery }: Claim, { code = 'unknown', status }: AttemptResult): FailedDelivery {
  return {
    deliveryId: delivery._id,
    eventId: delivery.eventId,
    eventType: delivery.type,
    webhookId: delivery.webhookId,
    userId: delivery.userId,
    attempts: delivery.attempt,
    code,
    ...(status !== undefined && { status }),
  };
}

/** Attempts in one claim. */
const claimMaxSize = 500;
/** Claims at the same time. */
const claimConcurrency = 2;

type Deliveries = ReturnType<typeof durableCollection<DeliveryDocument>>;

/** One condition for any number of attempts: an id and its number belong together. */
function filterFor(attempts: readonly AttemptKey[]) {
  const numbers = [...new Set(attempts.map(({ attempt }) => attempt))];
  const idsOf = (number: number) =>
    attempts.filter(({ attempt }) => attempt === number).map(({ deliveryId }) => deliveryId);
  return { $or: numbers.map((attempt) => ({ _id: { $in: idsOf(attempt) }, attempt })) };
}

/**
 * Frees the attempts at once, whether they were claimed or not, and takes back their start. Another process may have claimed
 * them since: its lease stays. Best effort, and acknowledged by one member, because no majority may be reachable.
 */
async function undoClaims(collection: Deliveries, attempts: readonly AttemptKey[], token: string): Promise<void> {
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

/** Claims attempts that are due and free, many in one write. */
function createClaimDue(deps: Pick<ClaimsDeps, 'deliveries' | 'owner' | 'lease'>) {
  const { owner, lease: duration } = deps;
  const collection = durableCollection(deps.deliveries);

  /** Resolves to the number of claimed attempts. */
  async function claim(attempts: readonly AttemptKey[], token: string): Promise<number> {
    const isDue = { $lte: ['$claimableAt', '$$NOW'] };
    const lease = { owner, token, startedAt: '$$NOW' };
    const { matchedCount } = await collection.updateMany(
      { state: 'pending', ...filterFor(attempts), 'lease.token': { $ne: token }, $expr: isDue },
      [{ $set: { lease, claimableAt: fromNow(duration), starts: { $add: ['$starts', 1] } } }],
    );
    return matchedCount;
  }

  /** The claimed deliveries. A claim that is overlooked would lapse and count as a crashed attempt. */
  async function readClaimed(token: string, attempts: readonly AttemptKey[], atLeast: number) {
    const filter = { _id: { $in: attempts.map(({ deliveryId }) => deliveryId) }, 'lease.token': token };
    const claimed = await collection.find(filter, inOneBatch).toArray();
    return claimed.length >= atLeast ? claimed : findConfirmed(collection, filter);
  }

  /** @throws if it is not known in time what was claimed, or the leases have ended meanwhile */
  async function claimWithToken(token: string, attempts: readonly AttemptKey[], until: number) {
    // the driver does not retry an update of many documents; what has this token already is not claimed twice
    const count = await claim(attempts, token).catch(() => claim(attempts, token));
    const claimed = await readClaimed(token, attempts, count);
    if (performance.now() < until) return claimed;
    throw new TimeoutError('the database confirmed claims only after their leases had ended');
  }

  const claiming = createBatcher<AttemptKey, Claim | null>({
    maxSize: claimMaxSize,
    concurrency: claimConcurrency,
    async write(attempts) {
      const token = randomUUID();
      const heldUntil = performance.now() + duration;
      const claimed = await claimWithToken(token, attempts, heldUntil).catch(async (error: unknown) => {
        await undoClaims(collection, attempts, token);
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
function withAttempt(record: AttemptRecord) {
  const { number } = record;
  const added = { $concatArrays: ['$attempts', [{ $literal: record }]] };
  if (number === undefined) return added;
  const isSame = { $eq: ['$$this.number', number] };
  const replaced = { $map: { input: '$attempts', in: { $cond: [isSame, { $literal: record }, '$$this'] } } };
  return { $cond: [{ $in: [number, '$attempts.number'] }, replaced, added] };
}

/**
 * Records an attempt whose claim was lost before it was recorded. Another process may have made it again, but a 2xx counts. A
 * failure is not recorded.
 * @param retention milliseconds
 * @returns whether the attempt is recorded, now or before
 */
export async function recordLate(
  collection: Deliveries,
  _id: string,
  record: AttemptRecord,
  retention: number,
): Promise<boolean> {
  const { number, startedAt, code } = record;
  const same = number === undefined ? { manual: true as const, startedAt } : { number, startedAt };
  if (await collection.findOne({ _id, attempts: { $elemMatch: same } }, { projection: { _id: 1 } })) return true;
  if (code !== undefined) return false;
  const hasSucceeded = { $elemMatch: { number, code: { $exists: false } } };
  const filter = { _id, ...(number !== undefined && { attempts: { $not: hasSucceeded } }) };
  const attempt = { $cond: [{ $eq: ['$state', 'pending'] }, number ?? '$attempt', '$attempt'] };
  const set = { attempts: withAttempt(record), attempt, ...toDelivered(retention) };
  const { matchedCount } = await collection.updateOne(filter, [{ $set: set }]);
  return matchedCount === 1;
}
