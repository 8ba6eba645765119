import { type Model, type mongo, Schema } from 'mongoose';
import { modelFactory, schemaDate, schemaOptions } from '../mongo/collection.ts';

/** One published event: the outbox entry. Once it is written, it cannot be lost. */
export interface EventDocument {
  /** `evt_…`, the same in every delivery of the event. */
  _id: string;
  userId: string;
  type: string;
  /** The envelope's `created`, by the publisher's clock. */
  created: Date;
  /** When it was stored, by the database's clock; due times start from it. */
  acceptedAt: Date;
  /** The envelope: the exact bytes that are signed and sent. */
  body: Buffer;
  /** The webhooks that were active and subscribed when the event was published. */
  targets: string[];
  /**
   * Set if a webhook was added to `targets` after the event was stored. A recovery may be sending it the event, so no first
   * attempt is made from memory any more.
   */
  targetsAdded?: true;
  /** The webhooks that were subscribed but inactive. */
  skipped: string[];
  /** `pending` until every target has its delivery. */
  fanOut: 'pending' | 'done';
  /** When the lease on its fan-out ends, by the database's clock. In the past, any process may take it. */
  fanOutAt: Date;
  /** How many leases there have been; renewals do not count. After the first one, deliveries may have been made. */
  fanOutLeases: number;
  /** Random, new with every lease that a sweep takes. */
  fanOutToken?: string;
  /**
   * Set while `targets` may miss a webhook, or have one too many: the election of the primary that looked them up, or an earlier one; `none`
   * until they are looked up. See {@link SettleSubscribers}.
   */
  lookupElection?: string;
  /** Whether it is a test event: it gets one attempt, with a header that tells the receiver. */
  test: boolean;
  /** The span that published it, as the header `traceparent`; absent where it was not traced. */
  traceparent?: string;
  /** Unique for the user; generated if the publisher gave none. */
  idempotencyKey: string;
  /** SHA-256 of type and data, independent of the order of keys: tells a repetition from a conflict. */
  contentHash: string;
  /** The HMAC key of its deliveries' ids, so that they cannot be guessed. */
  deliveryKey: Buffer;
  /** Set when the event is no longer needed; the TTL index then removes it. */
  expiresAt?: Date;
}

export type EventModel = Model<EventDocument>;

const schema = new Schema<EventDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    type: { type: String, required: true },
    created: { type: schemaDate, required: true },
    acceptedAt: { type: schemaDate, required: true },
    body: { type: Buffer, required: true },
    targets: [String],
    targetsAdded: Boolean,
    skipped: [String],
    fanOut: { type: String, enum: ['pending', 'done'], required: true },
    fanOutAt: { type: schemaDate, required: true },
    fanOutLeases: { type: Number, required: true },
    fanOutToken: String,
    lookupElection: String,
    test: { type: Boolean, required: true },
    traceparent: String,
    idempotencyKey: { type: String, required: true },
    contentHash: { type: String, required: true },
    deliveryKey: { type: Buffer, required: true },
    expiresAt: schemaDate,
  },
  schemaOptions,
)
  .index({ userId: 1, idempotencyKey: 1 }, { name: 'idempotency', unique: true })
  .index({ userId: 1, _id: -1 }, { name: 'userEvents' })
  .index({ userId: 1, type: 1, _id: -1 }, { name: 'userTypeEvents' })
  .index({ userId: 1, _id: -1 }, { name: 'userUnheard', partialFilterExpression: { targets: { $eq: [] } } })
  .index(
    { userId: 1, type: 1, _id: -1 },
    { name: 'userTypeUnheard', partialFilterExpression: { targets: { $eq: [] } } },
  )
  .index({ skipped: 1, _id: 1 }, { name: 'skipped', partialFilterExpression: { 'skipped.0': { $exists: true } } })
  .index({ fanOutAt: 1, _id: 1 }, { name: 'unfinishedFanOut', partialFilterExpression: { fanOut: 'pending' } })
  .index({ userId: 1, _id: -1 }, { name: 'userPending', partialFilterExpression: { fanOut: 'pending' } })
  .index(
    { expiresAt: 1 },
    { name: 'expiryOfOld', expireAfterSeconds: 0, partialFilterExpression: { expiresAt: { $exists: true } } },
  );
export const createEventModel = modelFactory('Event', 'events', schema);

/** A process, and the sessions in which it runs transactions. */
export interface OwnerDocument {
  /** `wrk_…` */
  _id: string;
  /** Ids of server sessions. */
  sessions: mongo.Binary[];
  /** By the database's clock; renewed while the process runs transactions. */
  until: Date;
}

export type OwnerModel = Model<OwnerDocument>;

const ownerSchema = new Schema<OwnerDocument>(
  { _id: String, sessions: { type: Schema.Types.Mixed, required: true }, until: { type: schemaDate, required: true } },
  // written with w: 1: a failover may lose it, but the next renewal writes it again, and a failover ends transactions anyway
  schemaOptions,
).index({ until: 1 }, { name: 'expiry', expireAfterSeconds: 3_600 });
export const createOwnerModel = modelFactory('TransactionOwner', 'transaction_owners', ownerSchema);
