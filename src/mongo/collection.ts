import type { Connection, Model, mongo, Schema } from 'mongoose';

/** The write concern of everything that must not be lost. */
export const durable = { w: 'majority', j: true } as const;

/**
 * What every transaction states beside its read concern: it takes what is missing from the host's connection, which may
 * prefer secondaries, and the driver lets a transaction read from the primary only.
 */
export const durableTransaction = { writeConcern: durable, readPreference: 'primary' } as const;

/**
 * What every schema is made with. A field or a filter that the schema does not know throws: mongoose would drop it, and
 * a filter without its misspelt key matches everything. Indexes are built by `createIndexes()` and nothing by itself.
 * Reads from the primary and writes acknowledged by a majority and journaled, whatever the host's connection says:
 * a revocation or a pause is seen at once and survives a failover.
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

/** The connection's model of that name, made if it has none: a second gateway of the same prefix shares it. */
export function modelOf<T>(connection: Connection, name: string, schema: Schema<T>, collection: string): Model<T> {
  const existing = connection.models[name] as Model<T> | undefined;
  return existing ?? connection.model<T>(name, schema.clone(), collection);
}

/**
 * The driver's collection behind a model, as durable as `durableSchema`; mongoose's documents stay off the hot path.
 * One acknowledged write lost is one event lost.
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
 * What an upsert of one document sets so that it inserts `document`, with `computed` by the server's clock, and leaves the one that is
 * there as it is.
 * @param required a field that every stored document has, and that is no part of the filter: its absence says that there is none
 */
export function insertOnly(document: object, computed: Readonly<Record<string, unknown>>, required: string) {
  const isMissing = { $eq: [{ $type: `$${required}` }, 'missing'] };
  const inserted = { $mergeObjects: [{ $literal: document }, computed] };
  return [{ $replaceWith: { $cond: [isMissing, inserted, '$$ROOT'] } }];
}

/** For reads that are bounded anyway: of 102 documents the server would keep back one until it is asked again. */
export const inOneBatch = { batchSize: 100_000 } as const;
