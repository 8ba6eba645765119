import { isDeepStrictEqual } from 'node:util';
import type { mongo, Schema } from 'mongoose';
import { GatewayError } from '../../errors.ts';

type Db = mongo.Db;

/** The indexes that one collection needs, beside that of `_id`. */
export interface CollectionIndexes {
  readonly collection: string;
  readonly indexes: readonly (mongo.IndexDescription & { readonly name: string })[];
  /** Whether losing its documents loses nothing: a process starts without its indexes. */
  readonly isDisposable?: true;
}

/**
 * `different`: an index of this name has other fields or options. `altered`: it only expires documents after another time, as after
 * `collMod`. `building`: the database is building it. `unknown`: this version
 * does not use it, and it is no hashed one, as shard keys have.
 */
type IndexState = 'present' | 'missing' | 'different' | 'altered' | 'building' | 'unknown';

/** One index, and whether the database has it. A collection that needs none and does not exist lacks its `_id_`. */
export interface FoundIndex {
  readonly collection: string;
  readonly name: string;
  readonly state: IndexState;
  /** Whether this version needs it to be unique: without it, data gets wrong. */
  readonly isUnique: boolean;
}

interface IndexedModel {
  readonly schema: Pick<Schema, 'indexes'>;
  readonly collection: { readonly collectionName: string };
}

export function indexesOfModel({ schema, collection }: IndexedModel): CollectionIndexes {
  // a host's defaults for all schemas may add further ones, which have no name
  const named = schema.indexes().filter(([, { name }]) => name !== undefined);
  const indexes = named.map(([key, { background: _, ...options }]) => ({ key, ...options }));
  return { collection: collection.collectionName, indexes: indexes as CollectionIndexes['indexes'] };
}

type Index = CollectionIndexes['indexes'][number];

/** What the server lists: one that is being built comes with the id of the build. */
type Listed = Index | { readonly spec: Index; readonly buildUUID: unknown };

const specOf = (listed: Listed): Index => ('spec' in listed ? listed.spec : listed);

/** As an index for a shard key is; the gateway declares none. */
const isHashed = ({ key }: Index): boolean => Object.values(key).includes('hashed');

const idIndex = '_id_';
/** The server's codes. */
const namespaceNotFound = 26;
const namespaceExists = 48;
const indexOptionsConflict = 85;
const indexKeySpecsConflict = 86;
const apiStrictError = 323;

const hasCode = (error: unknown, code: number) => (error as { code?: unknown }).code === code;

/** @param options what tells an index that is being built from one that is there */
async function list(
  db: Db,
  collection: string,
  options: object = { includeBuildUUIDs: true },
): Promise<readonly Listed[]> {
  try {
    // a collection has 64 indexes at most
    const { cursor } = await db.command({ listIndexes: collection, cursor: { batchSize: 100 }, ...options });
    return cursor.firstBatch;
  } catch (error) {
    if (hasCode(error, namespaceNotFound)) return [];
    // the Stable API does not have these options: there, one that is being built counts as present
    if (hasCode(error, apiStrictError)) return list(db, collection, {});
    throw error;
  }
}

/** What decides whether two indexes do the same, but for the time after which they expire documents. The order of fields counts. */
function essence({ key, unique = false, expireAfterSeconds, partialFilterExpression }: Index): unknown[] {
  return [Object.entries(key), unique, expireAfterSeconds === undefined, partialFilterExpression];
}

function stateOf(declared: Index, listed: readonly Listed[]): IndexState {
  const actual = listed.find((index) => specOf(index).name === declared.name);
  if (!actual) return 'missing';
  if ('spec' in actual) return 'building';
  if (!isDeepStrictEqual(essence(actual), essence(declared))) return 'different';
  return actual.expireAfterSeconds === declared.expireAfterSeconds ? 'present' : 'altered';
}

async function findIn(db: Db, { collection, indexes }: CollectionIndexes): Promise<FoundIndex[]> {
  const listed = await list(db, collection);
  if (listed.length === 0 && indexes.length === 0) {
    return [{ collection, name: idIndex, state: 'missing', isUnique: false }];
  }
  const declaredNames = new Set([idIndex, ...indexes.map(({ name }) => name)]);
  const others = listed.map(specOf).filter((index) => !declaredNames.has(index.name) && !isHashed(index));
  return [
    ...indexes.map((index) => ({
      collection,
      name: index.name,
      state: stateOf(index, listed),
      isUnique: index.unique ?? false,
    })),
    ...others.map(({ name }) => ({ collection, name, state: 'unknown' as const, isUnique: false })),
  ];
}

/**
 * How many collections are read or built at once, each on a connection. With all of them at once, a gateway that starts on an empty
 * database opens 15 connections in place of 5, and takes 131 ms of CPU in place of 99 (126 to 136, and 95 to 103), as long as before.
 */
const collectionsAtOnce = 4;

/** Does the same with each collection. After a failure, it begins with no other. @returns the results in the order of the collections */
async function withEach<Result>(
  needed: readonly CollectionIndexes[],
  work: (collection: CollectionIndexes) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  // unlike an array's own iterator, a generator ends for every loop over it when one of them throws
  const remaining = (function* () {
    yield* needed.entries();
  })();
  async function takeRemaining(): Promise<void> {
    for (const [i, collection] of remaining) results[i] = await work(collection);
  }
  await Promise.all(Array.from({ length: collectionsAtOnce }, takeRemaining));
  return results;
}

export async function findIndexes(db: Db, needed: readonly CollectionIndexes[]): Promise<FoundIndex[]> {
  return (await withEach(needed, (collection) => findIn(db, collection))).flat();
}

/** Whether the gateway must not rely on this index. */
export function isLacking({ state }: Pick<FoundIndex, 'state'>): boolean {
  return state === 'missing' || state === 'different' || state === 'building';
}

/** Whether the index only expires documents after another time. */
export function isAltered({ state }: Pick<FoundIndex, 'state'>): boolean {
  return state === 'altered';
}

/** An index as it is shown: `gateway_events.idempotency`. */
export function indexName({ collection, name }: Pick<FoundIndex, 'collection' | 'name'>): string {
  return name === idIndex ? collection : `${collection}.${name}`;
}

/** What an operator runs in mongosh to drop an index. */
export function dropIndexCommand({ collection, name }: Pick<FoundIndex, 'collection' | 'name'>): string {
  return `db.getCollection('${collection}').dropIndex('${name}')`;
}

/** @throws GatewayError `invalid_options` that names the indexes which keep others from being built */
function refuseDifferent(collection: string, found: readonly FoundIndex[], cause: Error): never {
  const different = found.filter(({ state }) => state === 'different');
  const remedy = different.map(dropIndexCommand).join(' and ');
  const message = `indexes: ${collection} has an index with other fields or options than this version needs`;
  const details = { param: 'indexes', cause };
  throw new GatewayError('invalid_options', `${message}; ${remedy ? `run ${remedy}` : cause.message}`, details);
}

/**
 * Builds the other indexes where the server refuses some that are only altered.
 * @throws GatewayError `invalid_options` if there are none of these
 */
async function buildBesideAltered(db: Db, needed: CollectionIndexes, cause: Error): Promise<readonly FoundIndex[]> {
  const { collection, indexes } = needed;
  const foundIndexes = await findIn(db, needed);
  const altered = foundIndexes.filter(isAltered);
  if (altered.length === 0) refuseDifferent(collection, foundIndexes, cause);
  const alteredNames = new Set(altered.map(({ name }) => name));
  const others = await buildIndexesOf(db, {
    ...needed,
    indexes: indexes.filter(({ name }) => !alteredNames.has(name)),
  });
  return [...altered, ...others];
}

/**
 * Builds the indexes of one collection, and creates the collection if it does not exist. Existing indexes stay as they are.
 * @returns those that expire documents after another time, and stay so
 * @throws GatewayError `invalid_options` if an index of the same name or fields differs from what is needed
 */
export async function buildIndexesOf(db: Db, needed: CollectionIndexes): Promise<readonly FoundIndex[]> {
  const { collection, indexes } = needed;
  if (indexes.length === 0) {
    await db.command({ create: collection }).catch((error: unknown) => {
      if (!hasCode(error, namespaceExists)) throw error;
    });
    return [];
  }
  try {
    await db.collection(collection).createIndexes([...indexes]);
  } catch (error) {
    if (hasCode(error, indexOptionsConflict) || hasCode(error, indexKeySpecsConflict)) {
      return buildBesideAltered(db, needed, error as Error);
    }
    throw error;
  }
  return [];
}

/** Builds the indexes of every collection. @returns those that expire documents after another time, and stay so */
export async function buildIndexes(db: Db, needed: readonly CollectionIndexes[]): Promise<readonly FoundIndex[]> {
  return (await withEach(needed, (collection) => buildIndexesOf(db, collection))).flat();
}
