import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../mongo/collection.ts';

/** Where a delivery stands. Only `pending` ones are ever attempted. */
export type DeliveryState = 'pending' | 'delivered' | 'failed' | 'canceled';

/** Why a delivery was canceled: judged when an attempt is claimed, nowhere else. */
export type CancelReason = 'webhook_deleted' | 'webhook_inactive' | 'unsubscribed' | 'event_deleted';

/** One attempt that was made, as it is shown to the receiver's owner. */
export interface AttemptRecord {
  /** 1 to 6; absent when somebody asked for the attempt. */
  number?: number;
  /** Whether somebody asked for it: it counts for nothing but its success. */
  manual?: true;
  /** By the database's clock. */
  startedAt: Date;
  durationMs: number;
  /** What the receiver answered; absent when it did not. */
  status?: number;
  /** Why the attempt failed (attempt/failures.ts); absent when it succeeded. */
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

/** The right to make one attempt that somebody asked for, beside the schedule. */
export interface ManualLease {
  /** Who makes it, for people who look. */
  owner: string;
  /** Random, new with every claim. */
  token: string;
  startedAt: Date;
  /** By the database's clock; in the past means that whoever has it died. */
  until: Date;
}

/** One event on its way to one webhook. This document decides everything; jobs only tell workers when to look. */
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
  /** There while a manual attempt is made; `claimableAt` is moved out of its way. */
  manual?: ManualLease;
  /** The recovery that has last sent it again: none does so twice. */
  recoveredBy?: string;
  attempts: AttemptRecord[];
  createdAt: Date;
  endedAt?: Date;
  expiresAt?: Date;
}

export type DeliveryModel = Model<DeliveryDocument>;

const attempt = new Schema<AttemptRecord>(
  {
    number: Number,
    manual: Boolean,
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

const manualLease = new Schema<ManualLease>(
  {
    owner: { type: String, required: true },
    token: { type: String, required: true },
    startedAt: { type: Date, required: true },
    until: { type: Date, required: true },
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
    manual: manualLease,
    recoveredBy: String,
    attempts: [attempt],
    createdAt: { type: Date, required: true },
    endedAt: Date,
    expiresAt: Date,
  },
  durableSchema,
)
  .index({ eventId: 1, _id: -1 }, { name: 'eventDeliveries' })
  .index({ userId: 1, type: 1, state: 1, _id: -1 }, { name: 'ofUser' })
  .index({ webhookId: 1, type: 1, state: 1, _id: -1 }, { name: 'ofWebhook' })
  // two indexes of what is due, in time and by webhook, whose conditions differ so that no query can mistake them
  .index({ claimableAt: 1, webhookId: 1 }, { name: 'due', partialFilterExpression: { claimableAt: { $exists: true } } })
  .index({ webhookId: 1, claimableAt: 1 }, { name: 'dueOfWebhook', partialFilterExpression: { state: 'pending' } })
  // most documents have none: they cost the index nothing
  .index(
    { expiresAt: 1 },
    { name: 'expiryOfEnded', expireAfterSeconds: 0, partialFilterExpression: { expiresAt: { $exists: true } } },
  );

/** The deliveries of one gateway: model `<prefix>Delivery`, collection `<prefix>deliveries`. Indexes are built by `createIndexes()`. */
export function createDeliveryModel(connection: Connection, prefix: string): DeliveryModel {
  return modelOf(connection, `${prefix}Delivery`, schema, `${prefix}deliveries`);
}
