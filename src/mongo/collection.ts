import type { Connection, Model, mongo, Schema } from 'mongoose';

/** The write concern of everything that must not be lost. */
export const durable = { w: 'majority', j: true } as const;

/**
 * The options of every transaction beside its read concern. Without them, it takes those of the host's connection, which may
 * prefer secondaries; but the driver lets a transaction read from the primary only.
 */
export const durableTransaction = { writeConcern: durable, readPreference: 'primary' } as const;

/**
 * The options of every schema. An unknown field, or an unknown key in a filter, throws: mongoose would drop it, and a filter
 * without its misspelt key matches everything. `schema/` builds the indexes, not mongoose. Reads go to the primary, and writes are
 * acknowledged by a majority and journaled, whatever the host's connection says: so a revocation or a pause takes effect at
 * once and survives a failover.
 */
export const durableSchema = {
  strict: 'throw',
  strictQuery: 'throw',
  versionKey: false,
  autoIndex: false,
  autoCreate: false,
  read: 'primary',
  writeConcern: durable,
} as const;

/**
 * Makes the function that returns a gateway's model on a connection: the prefix of the gateway stands before its name and that of its collection.
 * A second gateway with the same prefix shares it.
 */
export function modelFactory<T>(name: string, collection: string, schema: Schema<T>) {
  return (connection: Connection, prefix: string): Model<T> =>
    (connection.models[prefix + name] as Model<T> | undefined) ??
    connection.model<T>(prefix + name, schema.clone(), prefix + collection);
}

/**
 * The driver's collection behind a model, as durable as `durableSchema`, without the cost of mongoose's documents.
 */
export function durableCollection<T extends mongo.Document>(model: Model<T>): mongo.Collection<T> {
  return model.db
    .getClient()
    .db(model.db.name)
    .collection<T>(model.collection.collectionName, {
      writeConcern: { w: durable.w, journal: durable.j },
      readPreference: 'primary',
      promoteBuffers: true,
      ignoreUndefined: true,
    });
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
