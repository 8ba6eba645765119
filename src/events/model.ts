import { type Connection, type Model, type mongo, Schema } from 'mongoose';

/** One published event: the outbox entry. Once it is written, it cannot be lost. */
export interface EventDocument {
  /** `evt_…`, the same in every delivery of the event. */
  _id: string;
  userId: string;
  type: string;
  /** The envelope's `created`, by the publisher's clock. */
  created: Date;
  /** When it was stored, by the database's clock: what due times start from. */
  acceptedAt: Date;
  /** The envelope, byte for byte as it is signed and sent. */
  body: Buffer;
  /** The webhooks that were active and subscribed when the event was published. */
  targets: string[];
  /** The webhooks that were subscribed but inactive. */
  skipped: string[];
  /** `pending` until every target has its delivery. */
  fanOut: 'pending' | 'done';
  /** Made for "send test event": one attempt, marked for the receiver. */
  test: boolean;
  /** Unique for the user; made when the publisher gave none. */
  idempotencyKey: string;
  /** SHA-256 of type and data, whatever the order of keys: tells a repetition from a conflict. */
  contentHash: string;
  /** Keys the ids of the event's deliveries, so that nobody can guess them. */
  deliveryKey: Buffer;
  /** Set when nothing of the event is needed any more; the TTL index removes it then. */
  expiresAt?: Date;
}

export type EventModel = Model<EventDocument>;

/** A driver collection; mongoose's documents stay off the hot path. */
export type Collection<T extends mongo.Document> = mongo.Collection<T>;

/**
 * The collection behind a model, with every read from the primary and every write acknowledged by a majority and
 * journaled, whatever the host's connection says: one acknowledged write lost is one event lost.
 */
export function durableCollection<T extends mongo.Document>(model: Model<T>): Collection<T> {
  return model.db
    .getClient()
    .db(model.db.name)
    .collection<T>(model.collection.collectionName, {
      writeConcern: { w: 'majority', journal: true },
      readPreference: 'primary',
      promoteBuffers: true,
      ignoreUndefined: true,
    });
}

const schema = new Schema<EventDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    type: { type: String, required: true },
    created: { type: Date, required: true },
    acceptedAt: { type: Date, required: true },
    body: { type: Buffer, required: true },
    targets: [String],
    skipped: [String],
    fanOut: { type: String, enum: ['pending', 'done'], required: true },
    test: { type: Boolean, required: true },
    idempotencyKey: { type: String, required: true },
    contentHash: { type: String, required: true },
    deliveryKey: { type: Buffer, required: true },
    expiresAt: Date,
  },
  { strict: 'throw', strictQuery: 'throw', versionKey: false, autoIndex: false, autoCreate: false },
)
  .index({ userId: 1, idempotencyKey: 1 }, { name: 'idempotency', unique: true })
  .index({ userId: 1, _id: -1 }, { name: 'userEvents' })
  .index({ userId: 1, type: 1, _id: -1 }, { name: 'userTypeEvents' })
  .index({ acceptedAt: 1 }, { name: 'fanOutPending', partialFilterExpression: { fanOut: 'pending' } })
  .index({ expiresAt: 1 }, { name: 'expiry', expireAfterSeconds: 0 });

/** The events of one gateway: model `<prefix>Event`, collection `<prefix>events`. Indexes are built by `createIndexes()`. */
export function createEventModel(connection: Connection, prefix: string): EventModel {
  const name = `${prefix}Event`;
  const existing = connection.models[name] as EventModel | undefined;
  return existing ?? connection.model<EventDocument>(name, schema.clone(), `${prefix}events`);
}
