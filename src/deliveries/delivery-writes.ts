import { randomUUID } from 'node:crypto';
import { type BatcherOptions, createBatcher } from '../mongo/batcher.ts';
import { type DatabaseClock, fromNow, momentIfSlow } from '../mongo/clock.ts';
import { durableCollection, inOneBatch, insertOnly } from '../mongo/collection.ts';
import { findConfirmed } from '../mongo/confirmed-reads.ts';
import { TimeoutError } from '../mongo/periodic.ts';
import { failuresIn, isDuplicateKey } from '../mongo/writes.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { AttemptKey, AttemptRecord, Claim, Deliveries, DeliveryDocument, DeliveryModel } from './model.ts';

/** Attempts in one claim, and deliveries in one insert. */
const claimMaxSize = 500;
const insertMaxSize = 500;
/** Retries in one write: the server plans and parses a statement for each. */
const retriesMaxSize = 100;
/** Changes in one write: the server searches all of them for each. */
const changesMaxSize = 200;
/**
 * While one write waits for the majority, the next is sent: with one at a time, more outcomes wait, and workers that are killed at their
 * own commands make 1.28 times as many attempts again (4,337 to 3,382 in 240 kills).
 */
const concurrency = 2;
/** How long the outcome of an attempt waits for others; if the process dies meanwhile, the attempt is made again. Milliseconds. */
const maxDelay = 5;
/**
 * How far apart outcomes are written that ended their deliveries before these were stored, unless so many wait: nothing else waits for
 * them. Milliseconds.
 */
const interval = 500;
const enough = 8;

/** A delivery whose first attempt has failed. */
interface Retry {
  readonly document: DeliveryDocument;
  /** Milliseconds. */
  readonly retryIn: number;
}

/** A change of a claimed delivery, fenced by the claim's token. */
export interface Change {
  readonly deliveryId: string;
  readonly token: string;
  /** Changes of one name set the same fields to the same values, so they share a statement. */
  readonly name: string;
  readonly set: Readonly<Record<string, unknown>>;
  /** The attempt that the change also records. */
  readonly record?: AttemptRecord;
  /** Whether the delivery shows that this change was made before the lease ended. */
  readonly isMade: (delivery: DeliveryDocument) => boolean;
}

type BulkWrite = Parameters<Deliveries['bulkWrite']>[0][number];

/** Of writes that do not depend on each other: one that fails keeps no other from being done. */
const unordered = { ordered: false } as const;
const noFailures: ReadonlyMap<number, unknown> = new Map();

type InsertResult = { readonly isNew: boolean } | { readonly error: unknown };

/** Inserts it, unless it exists, as due in `retryIn` ms by the database's own clock, so that no attempt is early. */
function toUpsert({ document, retryIn }: Retry): BulkWrite {
  const due = fromNow(retryIn);
  const update = insertOnly(document, { dueAt: due, claimableAt: due }, 'eventId');
  return { updateOne: { filter: { _id: document._id }, update, upsert: true } };
}

/** Claims made in one write share their token: only token and delivery id together identify a claim. */
const storedPair = { $concat: ['$_id', ' ', '$lease.token'] } as const;

/** One statement for all changes of a name: the server plans and parses each statement anew. */
function toStatements(group: readonly Change[]): BulkWrite[] {
  // changes of one name differ in their pairs and records alone
  const byName = new Map(group.map((change) => [change.name, change]));
  return [...byName.values()].map(({ name, record, set }) => {
    const changes = group.filter((change) => change.name === name);
    const pairs = { $literal: changes.map(({ deliveryId, token }) => `${deliveryId} ${token}`) };
    const records = { $literal: changes.map((change) => change.record) };
    const ownRecord = { $arrayElemAt: [records, { $indexOfArray: [pairs, storedPair] }] };
    const filter = { _id: { $in: changes.map(({ deliveryId }) => deliveryId) }, $expr: { $in: [storedPair, pairs] } };
    const update = [{ $set: { ...(record && { attempts: { $concatArrays: ['$attempts', [ownRecord]] } }), ...set } }];
    return { updateMany: { filter, update } };
  });
}

export interface DeliveryWritesDeps extends Pick<ResolvedOptions['deliveries'], 'concurrency'> {
  readonly deliveries: DeliveryModel;
  readonly clock: DatabaseClock;
  /** Names the worker in its leases. */
  readonly owner: string;
  /** How long a claim lasts unless renewed. Milliseconds. */
  readonly lease: number;
  /** Called with the number of deliveries that one command has inserted. @default nobody is */
  readonly onInserted?: (deliveries: number) => void;
}

export type DeliveryWrites = ReturnType<typeof createDeliveryWrites>;

/** Claims and writes deliveries, those of the same moment in one command. One that cannot be written fails alone. */
export function createDeliveryWrites(deps: DeliveryWritesDeps) {
  const { onInserted = () => {} } = deps;
  const collection = durableCollection(deps.deliveries);
  const outcomes = { concurrency, maxDelay };

  const inserting: BatcherOptions<DeliveryDocument, InsertResult> = {
    ...outcomes,
    maxSize: insertMaxSize,
    async write(documents) {
      const results = await insertEach(collection, documents);
      onInserted(documents.length);
      return results;
    },
  };
  const inserts = createBatcher(inserting);
  // where few attempts are under way at once, no more outcomes come until these are written
  const gatheredInserts = createBatcher({ ...inserting, interval, enough: Math.min(enough, deps.concurrency) });

  const retries = createBatcher<Retry, boolean>({
    ...outcomes,
    maxSize: retriesMaxSize,
    async write(group) {
      const { upsertedIds } = await collection.bulkWrite(group.map(toUpsert), unordered);
      onInserted(group.length);
      return group.map((_, i) => i in upsertedIds);
    },
  });

  const changes = createBatcher<Change, boolean>({
    ...outcomes,
    maxSize: changesMaxSize,
    write: (group) => changeAll(collection, group),
  });

  const claims = createBatcher<AttemptKey, Claim | null>({
    maxSize: claimMaxSize,
    concurrency,
    write: (attempts) => claimEach(collection, attempts, deps),
  });

  return {
    /** Claims an attempt that is due and free; otherwise `null`. */
    claim: claims.add,
    /**
     * Stores a delivery that is not stored yet. Resolves with whether it is new; one that is stored stays as it is.
     * @param mayWait whether others are waited for. @default no
     */
    async insert(document: DeliveryDocument, mayWait = false): Promise<boolean> {
      const result = await (mayWait ? gatheredInserts : inserts).add(document);
      if ('error' in result) throw result.error;
      return result.isNew;
    },
    /** The same for one whose next attempt is due in `retryIn` ms, by the database's clock. */
    insertRetry: retries.add,
    /** Changes a claimed delivery. Resolves to `false` if the claim was lost. */
    change: changes.add,
    /** From now on no outcome waits for others. */
    close: gatheredInserts.close,
  };
}

/** Inserts deliveries. @returns of each whether it is new, or why it is not stored */
async function insertEach(collection: Deliveries, documents: readonly DeliveryDocument[]): Promise<InsertResult[]> {
  const inserts = documents.map((document) => ({ insertOne: { document } }));
  const failures = await collection.bulkWrite(inserts, unordered).then(() => noFailures, failuresIn);
  return documents.map((_, i) => {
    const error = failures.get(i);
    return error && !isDuplicateKey(error) ? { error } : { isNew: error === undefined };
  });
}

/** Makes changes of claimed deliveries. @returns of each whether it is made: not if its claim was lost */
async function changeAll(collection: Deliveries, group: readonly Change[]): Promise<boolean[]> {
  const statements = toStatements(group);
  // deliveries that the first try has changed have no token any more; they are looked for below
  const update = () => collection.bulkWrite(statements, unordered);
  const { matchedCount } = await update().catch(update);
  if (matchedCount === group.length) return group.map(() => true);
  const documents = await findConfirmed(collection, { _id: { $in: group.map(({ deliveryId }) => deliveryId) } });
  const byId = new Map(documents.map((delivery) => [delivery._id, delivery]));
  return group.map(({ deliveryId, token, isMade }) => {
    const delivery = byId.get(deliveryId);
    // a replaced primary did not find it
    if (delivery?.lease?.token === token) throw new TimeoutError('a claimed delivery was not changed');
    return delivery !== undefined && isMade(delivery);
  });
}

/** Claims attempts. @returns of each its claim; `null` where it is not due, or not free */
async function claimEach(
  collection: Deliveries,
  attempts: readonly AttemptKey[],
  { clock, owner, lease }: Pick<DeliveryWritesDeps, 'clock' | 'owner' | 'lease'>,
): Promise<(Claim | null)[]> {
  const token = randomUUID();
  const askedAt = performance.now();
  const heldUntil = askedAt + lease;
  const claimed = await claimAll(collection, attempts, { owner, token, lease, heldUntil }).catch(
    async (error: unknown) => {
      await undoClaims(collection, attempts, token);
      throw error;
    },
  );
  const answeredAt = performance.now();
  const now = await momentIfSlow(clock, askedAt);
  const byId = new Map(claimed.map((delivery) => [delivery._id, delivery]));
  return attempts.map(({ deliveryId }) => {
    const delivery = byId.get(deliveryId);
    // two callers want it, but only one gets it
    byId.delete(deliveryId);
    if (!delivery?.lease) return null;
    const claimedAt = now ?? { time: delivery.lease.startedAt, monotonic: answeredAt };
    return { delivery, token, claimedAt, heldUntil };
  });
}

/** One condition for any number of attempts: an id and its number belong together. */
function filterFor(attempts: readonly AttemptKey[]) {
  const numbers = [...new Set(attempts.map(({ attempt }) => attempt))];
  return {
    $or: numbers.map((number) => {
      const alike = attempts.filter(({ attempt }) => attempt === number);
      return { _id: { $in: alike.map(({ deliveryId }) => deliveryId) }, attempt: number };
    }),
  };
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

/**
 * Claims what is due and free of these attempts, and returns it.
 * @throws if it is not known in time what was claimed, or the leases have ended meanwhile
 */
async function claimAll(
  collection: Deliveries,
  attempts: readonly AttemptKey[],
  { owner, token, lease, heldUntil }: Pick<DeliveryWritesDeps, 'owner' | 'lease'> & Pick<Claim, 'token' | 'heldUntil'>,
) {
  const claim = () =>
    collection.updateMany(
      // what has this token already is not claimed twice
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
  // the driver does not retry an update of many documents
  const { matchedCount } = await claim().catch(claim);
  const isClaimed = { _id: { $in: attempts.map(({ deliveryId }) => deliveryId) }, 'lease.token': token };
  let claimed = await collection.find(isClaimed, inOneBatch).toArray();
  // a claim that is overlooked would lapse and count as a crashed attempt
  if (claimed.length < matchedCount) claimed = await findConfirmed(collection, isClaimed);
  if (performance.now() < heldUntil) return claimed;
  throw new TimeoutError('the database confirmed claims only after their leases had ended');
}
