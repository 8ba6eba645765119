import type { mongo } from 'mongoose';
import { createBatcher } from './batcher.ts';
import { inOneBatch } from './collection.ts';
import { TimeoutError, withTimeout } from './periodic.ts';

/** How long the database may take to confirm a read. Milliseconds. */
const confirmTimeout = 3_000;

/** The server's codes if a majority has not confirmed a read in time (MongoDB's error_codes.yml). */
const unconfirmed: ReadonlySet<unknown> = new Set([
  50, // MaxTimeMSExpired
  64, // WriteConcernTimeout
  100, // UnsatisfiableWriteConcern
  187, // LinearizableReadConcernError
  262, // ExceededTimeLimit
]);
/** The server's code of a mongod outside a replica set: no other primary replaces it, so its reads are certain. */
const notAReplicaSet = 123;

const codeOf = (error: unknown) => (error as { code?: unknown } | null)?.code;

type ReadOptions = Pick<mongo.FindOptions, 'projection' | 'hint' | 'sort' | 'limit'>;

const usual = { ...inOneBatch, readPreference: 'primary', maxTimeMS: confirmTimeout } as const;
const linearizable = { ...usual, readConcern: { level: 'linearizable' } } as const;

/** The options of a read that is as certain as the database allows. */
export type ConfirmedRead = typeof usual | typeof linearizable;

/**
 * Reads with read concern `linearizable`: a found document exists and stays, and one that is not found does not exist. A usual
 * read proves neither, because a primary that does not know that it has been replaced answers it, too. Not possible in a
 * transaction. Use it before you end or refuse something for good.
 * @throws TimeoutError if the database does not confirm within 3 s; conclude nothing then
 */
export async function confirm<T>(read: (options: ConfirmedRead) => Promise<T>): Promise<T> {
  try {
    return await withTimeout(read(linearizable), confirmTimeout);
  } catch (error) {
    if (codeOf(error) === notAReplicaSet) return withTimeout(read(usual), confirmTimeout);
    if (!unconfirmed.has(codeOf(error))) throw error;
    throw new TimeoutError('the database has not confirmed a read in time', { cause: error });
  }
}

/**
 * Finds documents by a confirmed read.
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
 * Call it after a write that matched no document: a replaced primary does not match newer documents.
 * @throws TimeoutError if a document exists, or as {@link confirm} does; the write may be repeated
 */
export async function confirmAbsent<T extends mongo.Document>(
  collection: mongo.Collection<T>,
  filter: mongo.Filter<T>,
): Promise<void> {
  const documents = await findConfirmed(collection, filter, { projection: { _id: 1 }, limit: 1 });
  if (documents.length > 0) throw new TimeoutError('the database has not made a write that it could have made');
}

/**
 * Finds one document by a usual read, and if that finds none, by a confirmed read: `null` is certain. Each call confirms
 * separately. If many callers may ask for documents that do not exist, use {@link createReadConfirmed}, which confirms for
 * all at once.
 * @throws TimeoutError see {@link confirm}
 */
export async function findOneConfirmed<T extends mongo.Document>(
  collection: mongo.Collection<T>,
  filter: mongo.Filter<T>,
  options: ReadOptions = {},
): Promise<mongo.WithId<T> | null> {
  const document = await collection.findOne(filter, options);
  if (document) return document;
  const [confirmed = null] = await findConfirmed(collection, filter, options);
  return confirmed;
}

/**
 * Finds the documents with these ids by one usual read, and those that it does not find by one confirmed read: an id that is
 * missing in the result belongs to no document.
 * @param options `where` is what else the documents match
 * @throws TimeoutError see {@link confirm}
 */
export async function findAllConfirmed<T extends mongo.Document & { _id: string }>(
  collection: mongo.Collection<T>,
  ids: readonly string[],
  { where, ...options }: ReadOptions & { readonly where?: object } = {},
): Promise<Map<string, mongo.WithId<T>>> {
  const distinct = [...new Set(ids)];
  const filter = { ...where, _id: { $in: distinct } } as unknown as mongo.Filter<T>;
  const found = await collection.find(filter, { ...options, ...inOneBatch }).toArray();
  const byId = new Map(found.map((document) => [String(document._id), document]));
  const missing = distinct.filter((id) => !byId.has(id));
  if (missing.length === 0) return byId;
  for (const document of await findConfirmed(collection, { ...filter, _id: { $in: missing } }, options)) {
    byId.set(String(document._id), document);
  }
  return byId;
}

/** Ids in one confirming read. */
const maxSize = 10_000;
/** How long a read waits for others, so that a flood of reads costs few writes of the database. Milliseconds. */
const maxDelay = 50;

/**
 * Returns what `read` finds, and repeats it if it finds nothing although the document exists. `null` is certain.
 * @param id the `_id` of the document
 * @throws TimeoutError if the database cannot confirm that there is no such document
 */
export type ReadConfirmed = <T>(id: string, read: () => Promise<T | null>) => Promise<T | null>;

/**
 * Confirms reads of one collection. A confirmation makes the database write, so reads at the same moment share one, and only one
 * is under way: asking for documents that do not exist stays cheap.
 */
export function createReadConfirmed<T extends { _id: string }>(collection: mongo.Collection<T>): ReadConfirmed {
  const existing = createBatcher<string, boolean>({
    maxSize,
    maxDelay,
    async write(ids) {
      const filter = { _id: { $in: [...new Set(ids)] } } as unknown as mongo.Filter<T>;
      const documents = await findConfirmed(collection, filter, { projection: { _id: 1 } });
      const present = new Set(documents.map(({ _id }) => String(_id)));
      return ids.map((id) => present.has(id));
    },
  });

  return async function readConfirmed(id, read) {
    const result = await read();
    if (result !== null) return result;
    return (await existing.add(id)) ? read() : null;
  };
}
