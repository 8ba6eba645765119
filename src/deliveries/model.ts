import { type Connection, type Model, Schema } from 'mongoose';

/** Where a delivery stands. Only `pending` ones are ever attempted. */
export type DeliveryState = 'pending' | 'delivered' | 'failed' | 'canceled';

/** Why a delivery was canceled: judged when an attempt is claimed, nowhere else. */
export type CancelReason = 'webhook_deleted' | 'webhook_inactive' | 'unsubscribed' | 'event_deleted';

/** One attempt that was made, as it is shown to the receiver's owner. */
export interface AttemptRecord {
  /** 1 to 6. */
  number: number;
  /** By the database's clock. */
  startedAt: Date;
  durationMs: number;
  /** What the receiver answered; absent when it did not. */
  status?: number;
  /** Why the attempt failed (failures.ts); absent when it succeeded. */
  code?: string;
  /** The first 1 KB of the answer, as text. */
  response: string;
}

/** A worker's right to make one attempt. Lapses at the delivery's `claimableAt` unless renewed. */
export interface Lease {
  /** The worker, for people who look. */
  owner: string;
  /** Random, new with every claim: only who holds it may finish the attempt. */
  token: string;
  startedAt: Date;
}

/** One event on its way to one webhook. This document decides everything; jobs are only bells. */
export interface DeliveryDocument {
  /** `dlv_…`, derived from event and webhook: a second fan-out makes no second delivery. */
  _id: string;
  eventId: string;
  webhookId: string;
  userId: string;
  type: string;
  test: boolean;
  state: DeliveryState;
  reason?: CancelReason;
  /** The number of the attempt that is due or being made; of the last one when the delivery has ended. */
  attempt: number;
  maxAttempts: number;
  /** How often this attempt was started without being finished: more than one means workers died. */
  starts: number;
  /** When the attempt is due, by the database's clock. */
  dueAt: Date;
  /** `dueAt` while unclaimed, the lease's end while claimed: in the past means whoever asks may claim. Gone when ended. */
  claimableAt?: Date;
  lease: Lease | null;
  attempts: AttemptRecord[];
  createdAt: Date;
  endedAt?: Date;
  expiresAt?: Date;
}

export type DeliveryModel = Model<DeliveryDocument>;

const attempt = new Schema<AttemptRecord>(
  {
    number: { type: Number, required: true },
    startedAt: { type: Date, required: true },
    durationMs: { type: Number, required: true },
    status: Number,
    code: String,
    response: String,
  },
  { _id: false, strict: 'throw' },
);

const lease = new Schema<Lease>(
  {
    owner: { type: String, required: true },
    token: { type: String, required: true },
    startedAt: { type: Date, required: true },
  },
  { _id: false, strict: 'throw' },
);

const schema = new Schema<DeliveryDocument>(
  {
    _id: String,
    eventId: { type: String, required: true },
    webhookId: { type: String, required: true },
    userId: { type: String, required: true },
    type: { type: String, required: true },
    test: { type: Boolean, required: true },
    state: { type: String, enum: ['pending', 'delivered', 'failed', 'canceled'], required: true },
    reason: String,
    attempt: { type: Number, required: true },
    maxAttempts: { type: Number, required: true },
    starts: { type: Number, required: true },
    dueAt: { type: Date, required: true },
    claimableAt: Date,
    lease: { type: lease, default: null },
    attempts: [attempt],
    createdAt: { type: Date, required: true },
    endedAt: Date,
    expiresAt: Date,
  },
  { strict: 'throw', strictQuery: 'throw', versionKey: false, autoIndex: false, autoCreate: false },
)
  .index({ claimableAt: 1 }, { name: 'claimable', partialFilterExpression: { state: 'pending' } })
  .index({ eventId: 1 }, { name: 'event' })
  .index({ expiresAt: 1 }, { name: 'expiry', expireAfterSeconds: 0 });

/** The deliveries of one gateway: model `<prefix>Delivery`, collection `<prefix>deliveries`. Indexes are built by `createIndexes()`. */
export function createDeliveryModel(connection: Connection, prefix: string): DeliveryModel {
  const name = `${prefix}Delivery`;
  const existing = connection.models[name] as DeliveryModel | undefined;
  return existing ?? connection.model<DeliveryDocument>(name, schema.clone(), `${prefix}deliveries`);
}
