import type { mongo } from 'mongoose';
import { createBatcher } from './batcher.ts';
import { inOneBatch } from './collection.ts';
import { TimeoutError, withTimeout } from './with-timeout.ts';

/** How long the database has to confirm what it reads. Milliseconds. */
const confirmWithin = 3_000;

/** The server's codes for a read, or the write that confirms it, that a majority has not confirmed in time (MongoDB's error_codes.yml). */
const unconfirmed: ReadonlySet<unknown> = new Set([
  50, // MaxTimeMSExpired
  64, // WriteConcernTimeout
  100, // UnsatisfiableWriteConcern
  187, // LinearizableReadConcernError
  262, // ExceededTimeLimit
]);
/** The server's code for a mongod that is no member of a replica set: nothing replaces it, so what it reads is certain. */
const notAReplicaSet = 123;

const codeOf = (error: unknown) => (error as { code?: unknown } | null)?.code;

type ReadOptions = Pick<mongo.FindOptions, 'projection' | 'hint' | 'sort' | 'limit'>;

const usual = { ...inOneBatch, readPreference: 'primary', maxTimeMS: confirmWithin } as const;
const linearizable = { ...usual, readConcern: { level: 'linearizable' } } as const;

/** Options of a read whose answer is certain, or as good as can be had. */
export type ConfirmedRead = typeof usual | typeof linearizable;

/**
 * Reads with read concern `linearizable`: what is found exists and stays, and what is not found does not exist. A usual read
 * proves neither, for a primary that has been replaced without knowing answers it too. Cannot be part of a transaction. To
 * be used where a usual read would end or refuse something for good.
 * @throws TimeoutError when it cannot be confirmed within 3 s; nothing may be concluded then
 */
export async function confirm<T>(read: (options: ConfirmedRead) => Promise<T>): Promise<T> {
  try {
    return await withTimeout(read(linearizable), confirmWithin);
  } catch (error) {
    if (codeOf(error) === notAReplicaSet) return withTimeout(read(usual), confirmWithin);
    if (!unconfirmed.has(codeOf(error))) throw error;
    throw new TimeoutError('the database has not confirmed a read in time', { cause: error });
  }
}

/**
 * The documents that there are.
 * @throws TimeoutError see {@link confirm}
 */
export function findConfirmed<T extends mongo.Document>(
  collection: mongo.Collection<T>,
  filter: mongo.Filter<T>,
  options: ReadOptions = {},
): Promise<mongo.WithId<T>[]> {
  return confirm((confirmed) => collection.find(filter, { ...options, ...confirmed }).toArray());
}

/**
 * After a write that met no document: a primary that has been replaced meets none of what is newer.
 * @throws TimeoutError when there is one, and as {@link confirm} does: the write may be tried again
 */
export async function confirmAbsent<T extends mongo.Document>(
  collection: mongo.Collection<T>,
  filter: mongo.Filter<T>,
): Promise<void> {
  const found = await findConfirmed(collection, filter, { projection: { _id: 1 }, limit: 1 });
  if (found.length > 0) throw new TimeoutError('the database has not made a write that it could have made');
}

/**
 * One document, by a usual read; asked for again, confirmed, when that finds none: `null` is certain. Each call confirms by
 * itself: where anybody may ask for what does not exist, {@link createReadConfirmed} confirms for all at once.
 * @throws TimeoutError see {@link confirm}
 */
export async function findOneConfirmed<T extends mongo.Document>(
  collection: mongo.Collection<T>,
  filter: mongo.Filter<T>,
  options: ReadOptions = {},
): Promise<mongo.WithId<T> | null> {
  const found = await collection.findOne(filter, options);
  if (found) return found;
  const [confirmed = null] = await findConfirmed(collection, filter, options);
  return confirmed;
}

/**
 * The documents that have these ids, by one usual read; those that it does not find are asked for again together,
 * confirmed: an id that is missing in the answer belongs to no document.
 * @throws TimeoutError see {@link confirm}
 */
export async function findAllConfirmed<T extends mongo.Document & { _id: string }>(
  collection: mongo.Collection<T>,
  ids: readonly string[],
  options: ReadOptions = {},
): Promise<Map<string, mongo.WithId<T>>> {
  const found = new Map<string, mongo.WithId<T>>();
  const missing = () => [...new Set(ids)].filter((id) => !found.has(id));
  const filterFor = (some: readonly string[]) => ({ _id: { $in: some } }) as unknown as mongo.Filter<T>;
  const add = (documents: readonly mongo.WithId<T>[]) => {
    for (const document of documents) found.set(String(document._id), document);
  };
  add(await collection.find(filterFor(missing()), { ...options, ...inOneBatch }).toArray());
  if (missing().length > 0) add(await findConfirmed(collection, filterFor(missing()), options));
  return found;
}

/** Ids in one confirming read. */
const maxSize = 10_000;
/** How long the first of many waits for others: a flood costs so few writes of the database. Milliseconds. */
const maxDelay = 50;

/**
 * What a usual read finds; read again where it finds nothing although the document exists. `null` is certain.
 * @param id the `_id` of what is read
 * @throws TimeoutError when the database cannot confirm that there is no such document
 */
export type ReadConfirmed = <T>(id: string, read: () => Promise<T | null>) => Promise<T | null>;

/**
 * Confirms reads of one collection. A confirmation has the database write: those asked for at the same moment are one, and
 * one at a time is on its way, so that asking for what does not exist stays cheap.
 */
export function createReadConfirmed<T extends { _id: string }>(collection: mongo.Collection<T>): ReadConfirmed {
  const existing = createBatcher<string, boolean>({
    maxSize,
    maxDelay,
    async write(ids) {
      const filter = { _id: { $in: [...new Set(ids)] } } as unknown as mongo.Filter<T>;
      const found = await findConfirmed(collection, filter, { projection: { _id: 1 } });
      const present = new Set(found.map(({ _id }) => String(_id)));
      return ids.map((id) => present.has(id));
    },
  });

  return async function readConfirmed(id, read) {
    const found = await read();
    if (found !== null) return found;
    return (await existing.add(id)) ? read() : null;
  };
}
