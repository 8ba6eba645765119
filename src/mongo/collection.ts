import { setMaxListeners } from 'node:events';
import type { Connection, Model, mongo, Schema } from 'mongoose';
import { TimeoutError } from './periodic.ts';

/** The write concern of everything that must not be lost. */
export const durable = { w: 'majority', j: true } as const;

/**
 * The options of every transaction beside its read concern. Without them, it takes those of the host's connection, which may
 * prefer secondaries; but the driver lets a transaction read from the primary only.
 */
export const durableTransaction = { writeConcern: durable, readPreference: 'primary' } as const;

/**
 * The options of every schema. A schema declares the fields and indexes of a collection and no more: everything is read and written by
 * {@link durableCollection}, and `schema/` builds the indexes. What is read by a model all the same, as by tests, names no field that there is not.
 */
export const schemaOptions = { strict: 'throw', strictQuery: 'throw', autoIndex: false, autoCreate: false } as const;

/** The type of a date in a schema. mongoose goes by the name of a class, and tests put one of their own in the place of `Date`. */
export const schemaDate = 'Date' as unknown as DateConstructor;

/** Makes the function that returns a gateway's model on a connection: the prefix of the gateway stands before its name and that of its collection. */
export function modelFactory<T>(name: string, collection: string, schema: Schema<T>) {
  return (connection: Connection, prefix: string): Model<T> =>
    (connection.models[prefix + name] as Model<T> | undefined) ??
    connection.model<T>(prefix + name, schema.clone(), prefix + collection);
}

/** The driver's defaults. A host's client may have others, and a database takes those of its client. */
const driverDefaults = {
  readPreference: 'primary',
  readConcern: undefined,
  writeConcern: undefined,
  timeoutMS: undefined,
  pkFactory: undefined,
  forceServerObjectId: false,
  raw: false,
  promoteValues: true,
  promoteLongs: true,
  promoteBuffers: false,
  useBigInt64: false,
  bsonRegExp: false,
  serializeFunctions: false,
  ignoreUndefined: false,
  enableUtf8Validation: true,
} as const;

/**
 * A database of a connection's client, read from its primary, without any option of the client's that changes what is read and written.
 * @param name @default that of the connection
 */
export function databaseOf(
  connection: Pick<Connection, 'getClient' | 'name'>,
  { name = connection.name, ...options }: { readonly name?: string } & Pick<mongo.DbOptions, 'writeConcern'> = {},
): mongo.Db {
  return connection.getClient().db(name, { ...driverDefaults, ...options } as object);
}

/**
 * How long the driver waits for a command. Callers wait less long; but the driver (mongodb 7.8) never settles a command whose connection
 * is closed while the command waits to be written, and the command would keep its place in the pool for good. Longer than two tries of
 * `socketTimeoutMS`. Its signal costs some 2 µs of CPU a command, which takes 250 or more. Milliseconds.
 */
const longestCommand = 15_000;
/** Commands that begin within this time have one timer. Milliseconds. */
const sharedFor = 1_000;

/** Makes the function that returns the signal of a command that begins now: it aborts after {@link longestCommand}. */
export function createCommandTimeout(): () => AbortSignal {
  let signal: AbortSignal | undefined;
  let sharedUntil = 0;
  return () => {
    const now = performance.now();
    if (signal && now < sharedUntil) return signal;
    const controller = new AbortController();
    const abort = () => controller.abort(new TimeoutError('the database has not answered a command in time'));
    setTimeout(abort, longestCommand + sharedFor).unref();
    ({ signal } = controller);
    // as many as there are commands
    setMaxListeners(0, signal);
    sharedUntil = now + sharedFor;
    return signal;
  };
}

/** Which argument of the driver's methods are their options. */
const optionsAt = {
  find: 1,
  findOne: 1,
  aggregate: 1,
  countDocuments: 1,
  insertOne: 1,
  insertMany: 1,
  bulkWrite: 1,
  deleteOne: 1,
  deleteMany: 1,
  updateOne: 2,
  updateMany: 2,
  findOneAndUpdate: 2,
} as const;

/** The same collection, whose commands are given up after {@link longestCommand}. */
export function withCommandTimeout<T extends mongo.Document>(collection: mongo.Collection<T>): mongo.Collection<T> {
  const timeout = createCommandTimeout();
  const methods = Object.entries(optionsAt).map(([name, at]) => {
    const method = (collection[name as keyof typeof optionsAt] as (...args: unknown[]) => unknown).bind(collection);
    const withSignal = (...args: unknown[]) => {
      args[at] = { ...(args[at] as object | undefined), signal: timeout() };
      return method(...args);
    };
    return [name, withSignal];
  });
  return Object.assign(Object.create(collection), Object.fromEntries(methods));
}

/**
 * The driver's collection behind a model. Whatever a host sets on its mongoose, its connection or its client, reads go to the primary, and
 * writes are acknowledged by a majority and journaled: so a revocation or a pause takes effect at once and survives a failover. None of
 * mongoose's settings, plugins and middleware is run.
 */
export function durableCollection<T extends mongo.Document>(model: Model<T>): mongo.Collection<T> {
  const options = {
    writeConcern: { w: durable.w, journal: durable.j },
    promoteBuffers: true,
    ignoreUndefined: true,
    fieldsAsRaw: {},
  };
  return withCommandTimeout(databaseOf(model.db).collection<T>(model.collection.collectionName, options));
}

/**
 * The update of an upsert that inserts `document`, with the fields `computed` by the server, and leaves an existing document as
 * it is.
 * @param required a field that every stored document has and that is not in the filter: if it is missing, no document exists
 */
export function insertOnly(document: object, computed: Readonly<Record<string, unknown>>, required: string) {
  const isMissing = { $eq: [{ $type: `$${required}` }, 'missing'] };
  const inserted = { $mergeObjects: [{ $literal: document }, computed] };
  return [{ $replaceWith: { $cond: [isMissing, inserted, '$$ROOT'] } }];
}

/**
 * The values of a field in the documents that match, each once. Where an index begins with the fields of the filter and then has this one, it
 * skips from one value to the next, as the command `distinct` does; but that is not in MongoDB's Stable API, which the connections of hosts may
 * be limited to. Of a field that is an array it would find whole arrays.
 */
export async function distinctValues<T extends mongo.Document, Field extends keyof T & string>(
  collection: mongo.Collection<T>,
  field: Field,
  filter: mongo.Filter<T>,
  options: mongo.AggregateOptions = {},
): Promise<T[Field][]> {
  const pipeline = [{ $match: filter }, { $group: { _id: `$${field}` } }];
  const groups = await collection.aggregate<{ _id: T[Field] }>(pipeline, { ...inOneBatch, ...options }).toArray();
  return groups.map(({ _id }) => _id);
}

/** For reads that are limited anyway: of 102 documents, the server would otherwise hold back one until it is asked again. */
export const inOneBatch = { batchSize: 100_000 } as const;
