import { randomUUID } from 'node:crypto';
import type { FanOutLease } from '../events/outbox.ts';
import { type DatabaseClock, fromNow } from '../mongo/clock.ts';
import { durableCollection } from '../mongo/collection.ts';
import { LeaseKeeper, Leases } from '../mongo/lease.ts';
import { createPeriodic, type Periodic } from '../mongo/periodic.ts';
import { persist } from '../mongo/writes.ts';
import type { Logger } from '../options/options.ts';
import { InFlight } from '../pending-work.ts';
import type { RecordedAttempt } from '../webhooks/recorder.ts';
import { type Change, createDeliveryWrites, type DeliveryWrites, type DeliveryWritesDeps } from './delivery-writes.ts';
import type { AttemptKey, AttemptRecord, CancelReason, Claim, Deliveries, DeliveryDocument } from './model.ts';

/** A reference to an attempt that may be due: the claim decides. */
export type AttemptRef = AttemptKey & Pick<FoundAttempt, 'webhookId' | 'userId'>;

/** A stored attempt that becomes due soon. */
export interface ComingAttempt extends AttemptRef {
  /** Milliseconds until it is due. */
  readonly wait: number;
}

/** What a delivery says of its present attempt. */
export type FoundAttempt = Readonly<Pick<DeliveryDocument, '_id' | 'webhookId' | 'userId' | 'attempt'>>;

/** The delivery's present attempt. */
export function refOf({ _id, webhookId, userId, attempt }: FoundAttempt): AttemptRef {
  return { deliveryId: _id, webhookId, userId, attempt };
}

/** What follows an attempt: the end of the delivery, or another attempt in `retryIn` milliseconds. */
export type Next = { readonly state: 'delivered' | 'failed' } | { readonly retryIn: number };

/** The result of an attempt; its number is in the claim. */
export type AttemptResult = Omit<AttemptRecord, 'number' | 'startedAt'> & {
  /** When the request was sent, by the database's clock; absent where none was. */
  readonly startedAt?: Date;
};

/** When an attempt began: where no request was sent, when it was claimed. */
export const startOf = (
  { claimedAt }: Pick<Claim, 'claimedAt'>,
  { startedAt }: Pick<AttemptResult, 'startedAt'>,
): Date => startedAt ?? claimedAt.time;

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

/** Durations are milliseconds. */
export interface ClaimsDeps extends AttemptListeners, DeliveryWritesDeps {
  readonly clock: DatabaseClock;
  readonly renewInterval: number;
  /** How long a delivery is kept after its end. */
  readonly retention: number;
  /** After this time, a first attempt that has not ended is stored as claimed. @default 250 */
  readonly storeAfter?: number;
  /** Aborted when the gateway has closed. @default never */
  readonly closed?: AbortSignal;
  readonly logger: Logger;
}

/** The time that a lease must still last when a request is written, because the request takes time to reach the receiver. Milliseconds. */
export const sendMargin = 500;
/** How often the first attempts that take long are looked for. Milliseconds. */
const lookInterval = 50;

/** A first attempt whose delivery is not stored yet. */
interface First {
  readonly claim: Claim;
  readonly since: number;
  /** Whether its outcome is being stored. */
  hasOutcome: boolean;
  /** Set while the delivery is being stored as claimed; resolves with whether that was its first write. Never rejects. */
  storing: Promise<boolean> | undefined;
  readonly whenStored: { resolve(): void; reject(reason: Error): void };
}

/** A change of a claimed delivery. */
type ClaimChange = Omit<Change, 'deliveryId' | 'token'>;

const unclaimed = { lease: null, starts: 0 } as const;

/**
 * The right to make scheduled attempts, and every write under it. Calls made at the same moment share one write, in which the
 * database's clock decides for each delivery by itself.
 *
 * What the death of a process leaves: a delivery that is not stored has its event, whose lease lapses, and the next fan-out stores
 * it; a stored claim lapses at `claimableAt`, and the next claim counts one more start. An attempt that was sent but not recorded is
 * made again; one that processes have started four times without an end counts as failed (`attempt.ts`).
 */
export class Claims {
  readonly #deps: ClaimsDeps;
  readonly #writes: DeliveryWrites;
  readonly #keeper: LeaseKeeper<Claim>;
  readonly #collection: Deliveries;
  /** First attempts whose deliveries are not stored. */
  readonly #firsts = new InFlight<First>();
  /** The same by their claims. */
  readonly #firstOf = new WeakMap<Claim, First>();
  readonly #slowFirsts: Periodic;

  constructor(deps: ClaimsDeps) {
    const { deliveries, lease: duration, logger } = deps;
    this.#deps = deps;
    this.#collection = durableCollection(deliveries);
    this.#writes = createDeliveryWrites(deps);
    const leases = new Leases(this.#collection, { fence: 'lease.token', until: 'claimableAt', duration });
    this.#keeper = new LeaseKeeper<Claim>({
      name: 'renewing leases',
      renew: async (claims) => {
        const held = claims.map((claim) => ({ _id: claim.delivery._id, fence: claim.token, claim }));
        return (await leases.renew(held)).map(({ claim }) => claim);
      },
      duration,
      interval: deps.renewInterval,
      logger,
    });
    this.#slowFirsts = createPeriodic({
      name: 'storing attempts that take long',
      task: () => this.#storeSlow(),
      interval: lookInterval,
      initialDelay: lookInterval,
      logger,
    });
  }

  /** From now on no outcome waits for others. */
  close(): void {
    this.#writes.close();
  }

  /** Claims the attempt if it is due and free, and keeps its lease alive; otherwise `null`. */
  async claim(attempt: AttemptKey): Promise<Claim | null> {
    const claim = await this.#writes.claim(attempt);
    if (claim) this.#keeper.hold(claim, claim.heldUntil);
    return claim;
  }

  /**
   * The claim of a first attempt whose delivery is not stored: the lease of its event holds it until then. `whenStored` resolves
   * when it is stored, and rejects if this process will not store it.
   */
  first(delivery: DeliveryDocument, { heldUntil, since: claimedAt }: FanOutLease) {
    const claim: Claim = { delivery, token: randomUUID(), claimedAt, heldUntil };
    this.#keeper.track(claim, heldUntil);
    const whenStored = new Promise<void>((resolve, reject) => {
      const since = performance.now();
      const first = { claim, since, hasOutcome: false, storing: undefined, whenStored: { resolve, reject } };
      this.#firsts.add(first);
      this.#firstOf.set(claim, first);
    });
    this.#slowFirsts.start();
    return { claim, whenStored };
  }

  /** Whether this process surely still holds the claim if it writes the request now. */
  maySend(claim: Claim): boolean {
    return this.#keeper.lasts(claim, sendMargin);
  }

  /** Records the attempt and what follows. A second call changes nothing, and resolves with the same. */
  async record(claim: Claim, result: AttemptResult, next: Next): Promise<Recorded> {
    const { delivery } = claim;
    const startedAt = startOf(claim, result);
    const record = { number: delivery.attempt, ...result, startedAt };
    const attempts = [record];
    const isWritten = await this.#write(
      claim,
      () => {
        if ('retryIn' in next) {
          const document = { ...delivery, attempt: delivery.attempt + 1, attempts };
          return this.#writes.insertRetry({ document, retryIn: next.retryIn });
        }
        // from the same reading of the clock as the start: another reading may be a little earlier
        const endedAt = new Date(startedAt.getTime() + record.durationMs);
        return this.#insertEnded(delivery, endedAt, { state: next.state, attempts });
      },
      () => ({
        ...('retryIn' in next ? toRetry(next.retryIn) : this.#toEnded(next.state, { state: next.state })),
        record,
        isMade: (stored) =>
          stored.attempts.some(
            (found) => found.number === record.number && Number(found.startedAt) === Number(startedAt),
          ),
      }),
    );
    // the receiver has the event, and may have refused its repetition by another process
    const isLate = !isWritten && (await recordLate(this.#collection, delivery._id, record, this.#deps.retention));
    if (!isWritten && !isLate) return 'lost';
    const lateness = startedAt.getTime() - delivery.dueAt.getTime();
    this.#deps.onAttempt({ number: delivery.attempt, lateness, ...toEndedAttempt(claim, result) });
    if (!('retryIn' in next) && !delivery.test) {
      this.#deps.onEnded(next.state, result.code);
      if (next.state === 'failed') this.#deps.onFailed(toFailedDelivery(claim, result));
    }
    return isLate ? 'late' : 'recorded';
  }

  /** Ends the delivery without an attempt, unless the claim was lost. */
  async cancel(claim: Claim, reason: CancelReason): Promise<void> {
    const { delivery } = claim;
    const end = { state: 'canceled', reason } as const;
    const isCanceled = await this.#write(
      claim,
      async () => this.#insertEnded(delivery, await this.#deps.clock.now(), end),
      // nothing tells it from the cancellation by another worker, which counts it
      () => ({ ...this.#toEnded(reason, end), isMade: () => false }),
    );
    if (isCanceled && !delivery.test) this.#deps.onEnded('canceled', reason);
  }

  /** Gives the attempt back; it can be claimed again in `wait` ms. */
  async giveBack(claim: Claim, wait: number): Promise<void> {
    const insert = async () =>
      this.#writes.insert({ ...claim.delivery, claimableAt: await this.#inDatabaseTime(wait) });
    const set = { lease: null, starts: { $subtract: ['$starts', 1] }, claimableAt: fromNow(wait) };
    await this.#write(claim, insert, () => ({ name: `back for ${wait}`, set, isMade: () => true }));
  }

  /** Ends the keeping of a claim. A sweep finds what was not written. */
  drop(claim: Claim): void {
    void this.#keeper.drop(claim);
    if (this.#firstOf.has(claim)) this.#settle(claim, new Error('the delivery was not stored'));
  }

  /** Stores a delivery for any worker to claim. Resolves with whether it is new. */
  store(delivery: DeliveryDocument): Promise<boolean> {
    return this.#writes.insert(delivery);
  }

  /**
   * Makes the first write of the delivery, whose fence is the `_id`, derived from event and webhook; if it has been made, a change,
   * whose fence is the claim's token. Resolves to `false` if the claim was lost.
   */
  async #write(claim: Claim, insert: () => Promise<boolean>, change: () => ClaimChange): Promise<boolean> {
    const first = this.#firstOf.get(claim);
    if (first) {
      first.hasOutcome = true;
      const isNew = !(await first.storing) && (await insert());
      this.#settle(claim);
      if (isNew) return true;
    }
    return this.#writes.change({ deliveryId: claim.delivery._id, token: claim.token, ...change() });
  }

  #insertEnded(delivery: DeliveryDocument, endedAt: Date, more: Partial<DeliveryDocument>): Promise<boolean> {
    const { claimableAt: _, ...rest } = delivery;
    const expiresAt = new Date(endedAt.getTime() + this.#deps.retention);
    // whoever sends a test waits for its end
    return this.#writes.insert({ endedAt, expiresAt, ...rest, ...more }, !delivery.test);
  }

  #toEnded(name: string, end: object): Pick<ClaimChange, 'name' | 'set'> {
    const expiresAt = fromNow(this.#deps.retention);
    return { name, set: { ...end, ...unclaimed, endedAt: '$$NOW', expiresAt, claimableAt: '$$REMOVE' } };
  }

  // First attempts that take long.

  /** The delivery is stored; with `failure`, it will not be stored here. */
  #settle(claim: Claim, failure?: Error): void {
    const first = this.#firstOf.get(claim);
    if (!first) return;
    if (failure) first.whenStored.reject(failure);
    else first.whenStored.resolve();
    this.#firsts.delete(first);
    this.#firstOf.delete(claim);
    if (this.#firsts.size === 0) void this.#slowFirsts.stop();
  }

  #storeSlow(): void {
    const before = performance.now() - (this.#deps.storeAfter ?? 250);
    for (const first of this.#firsts) {
      if (first.since <= before) first.storing ??= this.#storeFirst(first);
    }
  }

  /** If this fails, the delivery is stored with its outcome. */
  async #storeFirst(first: First): Promise<boolean> {
    const { claim } = first;
    try {
      const isNew = await persist(async () => !first.hasOutcome && (await this.#storeClaimed(claim)), this.#deps);
      if (!first.hasOutcome) this.#settle(claim);
      return isNew;
    } catch {
      return false;
    }
  }

  /** Resolves with whether it is new. @throws if it is unknown whether it was stored */
  async #storeClaimed(claim: Claim): Promise<boolean> {
    const { owner, lease: duration } = this.#deps;
    const { delivery, token, claimedAt } = claim;
    // taken before the clock is read: a process that stands still in between holds its lease for less time, not for more
    const askedAt = performance.now();
    const claimableAt = await this.#inDatabaseTime(duration);
    const lease = { owner, token, startedAt: claimedAt.time };
    const isNew = await this.#writes.insert({ ...delivery, lease, claimableAt, starts: 1 });
    // an earlier try may have stored it and lost the answer: renewing the lease tells
    this.#keeper.hold(claim, isNew ? askedAt + duration : claim.heldUntil);
    return isNew;
  }

  async #inDatabaseTime(wait: number): Promise<Date> {
    return new Date((await this.#deps.clock.now()).getTime() + wait);
  }
}

function toRetry(retryIn: number): Pick<ClaimChange, 'name' | 'set'> {
  const due = fromNow(retryIn);
  const set = { ...unclaimed, attempt: { $add: ['$attempt', 1] }, dueAt: due, claimableAt: due };
  return { name: `again in ${retryIn}`, set };
}

export function toEndedAttempt(claim: Claim, result: AttemptResult): EndedAttempt {
  const { delivery } = claim;
  const { durationMs, status, code } = result;
  return {
    webhookId: delivery.webhookId,
    deliveryId: delivery._id,
    eventId: delivery.eventId,
    userId: delivery.userId,
    at: new Date(startOf(claim, result).getTime() + durationMs),
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
