import { type Model, Schema } from 'mongoose';
import type { Moment } from '../mongo/clock.ts';
import { type durableCollection, modelFactory, schemaDate, schemaOptions } from '../mongo/collection.ts';
import type { OutboundCode } from '../outbound/outbound-error.ts';

export const deliveryStates = ['pending', 'delivered', 'failed', 'canceled'] as const;

/** The state of a delivery. Only a `pending` one is attempted on schedule. */
export type DeliveryState = (typeof deliveryStates)[number];

/** Why an attempt failed. Stable: it is stored with the attempt and shown to the webhook's owner. */
export type FailureCode = OutboundCode | 'redirect' | 'worker_crashed' | `http_${number}`;

/** Why a delivery was canceled; decided when an attempt is claimed, nowhere else. */
export type CancelReason = 'webhook_deleted' | 'webhook_inactive' | 'unsubscribed' | 'event_deleted';

/** One attempt, as the webhook's owner sees it. */
export interface AttemptRecord {
  /** 1 to 6; absent if the attempt was asked for. */
  number?: number;
  /** Set if the attempt was asked for: only its success counts. */
  manual?: true;
  /** By the database's clock. */
  startedAt: Date;
  durationMs: number;
  /** The receiver's status; absent if it did not answer. */
  status?: number;
  /** Why the attempt failed; absent if it succeeded. */
  code?: FailureCode;
  /** The receiver's `Retry-After`, at most 100 characters; absent if it sent none. */
  retryAfter?: string;
  /** The `Location` of a redirect, at most 2,048 characters. */
  location?: string;
  /** The first 1 KB of the response, as text. */
  response: string;
}

/** A worker's right to make one attempt. Lapses at the delivery's `claimableAt` unless renewed. */
interface Lease {
  /** The worker; only for people who look at the database. */
  owner: string;
  /** The fencing token: random and new with every claim. */
  token: string;
  startedAt: Date;
}

/** A process's right to make one attempt that was asked for, outside the schedule. */
interface ManualLease extends Lease {
  /** By the database's clock. In the past, it means that the owner died. */
  until: Date;
}

/** One event on its way to one webhook. This document decides everything; jobs only wake workers. */
export interface DeliveryDocument {
  /** `dlv_…`, derived from event and webhook: a second fan-out makes no second delivery. */
  _id: string;
  eventId: string;
  webhookId: string;
  userId: string;
  type: string;
  test: boolean;
  /** The span that published the event, as the header `traceparent`; absent where it was not traced. */
  traceparent?: string;
  state: DeliveryState;
  reason?: CancelReason;
  /** The number of the attempt that is due or under way; of the last attempt if the delivery has ended. */
  attempt: number;
  maxAttempts: number;
  /** How often this attempt was started without an end: more than one means that workers died. */
  starts: number;
  /** When the attempt is due, by the database's clock. */
  dueAt: Date;
  /** `dueAt` while unclaimed, the end of the lease while claimed. In the past, any worker may claim it. Absent after the end. */
  claimableAt?: Date;
  lease: Lease | null;
  /** Set while a manual attempt is under way, which also postpones `claimableAt`. */
  manual?: ManualLease;
  /** The last recovery that sent it again: no recovery does so twice. */
  recoveredBy?: string;
  attempts: AttemptRecord[];
  createdAt: Date;
  endedAt?: Date;
  expiresAt?: Date;
}

export type DeliveryModel = Model<DeliveryDocument>;

/** The collection behind the model. */
export type Deliveries = ReturnType<typeof durableCollection<DeliveryDocument>>;

/** A webhook and its account. */
export type WebhookRef = Pick<DeliveryDocument, 'webhookId' | 'userId'>;

/** What tells one attempt from all others. */
export interface AttemptKey {
  readonly deliveryId: string;
  readonly attempt: number;
}

/** The right to make one attempt, until the lease lapses. */
export interface Claim {
  readonly delivery: DeliveryDocument;
  /** With the delivery's id, the fencing token of every write about the attempt: a worker that lost its lease changes nothing. */
  readonly token: string;
  /** When it was claimed, by the database's clock. */
  readonly claimedAt: Moment;
  /** When the lease ends unless renewed, by `performance.now()`; never later than by the database's clock. */
  readonly heldUntil: number;
}

const requiredText = { type: String, required: true } as const;
const requiredDate = { type: schemaDate, required: true } as const;
const requiredNumber = { type: Number, required: true } as const;
const embedded = { _id: false, strict: 'throw' } as const;

const attempt = new Schema<AttemptRecord>(
  {
    number: Number,
    manual: Boolean,
    startedAt: requiredDate,
    durationMs: requiredNumber,
    status: Number,
    code: String,
    retryAfter: String,
    location: String,
    response: String,
  },
  embedded,
);
const leaseFields = { owner: requiredText, token: requiredText, startedAt: requiredDate };
const lease = new Schema<Lease>(leaseFields, embedded);
const manualLease = new Schema<ManualLease>({ ...leaseFields, until: requiredDate }, embedded);

const schema = new Schema<DeliveryDocument>(
  {
    _id: String,
    eventId: requiredText,
    webhookId: requiredText,
    userId: requiredText,
    type: requiredText,
    test: { type: Boolean, required: true },
    traceparent: String,
    state: { ...requiredText, enum: deliveryStates },
    reason: String,
    attempt: requiredNumber,
    maxAttempts: requiredNumber,
    starts: requiredNumber,
    dueAt: requiredDate,
    claimableAt: schemaDate,
    lease: { type: lease, default: null },
    manual: manualLease,
    recoveredBy: String,
    attempts: [attempt],
    createdAt: requiredDate,
    endedAt: schemaDate,
    expiresAt: schemaDate,
  },
  schemaOptions,
)
  .index({ eventId: 1, _id: -1 }, { name: 'eventDeliveries' })
  .index({ userId: 1, type: 1, state: 1, _id: -1 }, { name: 'ofUser' })
  .index({ webhookId: 1, type: 1, state: 1, _id: -1 }, { name: 'ofWebhook' })
  // two indexes of due deliveries, by time and by webhook; their conditions differ so that no query can pick the wrong one
  .index({ claimableAt: 1, webhookId: 1 }, { name: 'due', partialFilterExpression: { claimableAt: { $exists: true } } })
  .index({ webhookId: 1, claimableAt: 1 }, { name: 'dueOfWebhook', partialFilterExpression: { state: 'pending' } })
  // most documents have no such field and so cost the index nothing
  .index(
    { expiresAt: 1 },
    { name: 'expiryOfEnded', expireAfterSeconds: 0, partialFilterExpression: { expiresAt: { $exists: true } } },
  );

/** The deliveries of one gateway: model `<prefix>Delivery`, collection `<prefix>deliveries`. */
export const createDeliveryModel = modelFactory('Delivery', 'deliveries', schema);

/** What can be recovered: failed and canceled deliveries, and events that were skipped because the webhook was inactive. */
export type RecoveryState = 'failed' | 'canceled' | 'skipped';

/** A process's right to run a recovery. */
type RecoveryLease = Omit<ManualLease, 'startedAt'>;

/** One recovery of a webhook: the request and the progress. */
export interface RecoveryDocument {
  /** `rec_…` */
  _id: string;
  userId: string;
  webhookId: string;
  state: 'running' | 'done';
  since: Date;
  until: Date;
  states: RecoveryState[];
  found: number;
  resent: number;
  delivered: number;
  failed: number;
  /** First the failed and canceled deliveries, then the skipped events. */
  phase: 'deliveries' | 'events';
  /** Everything up to this id is done, in this phase. */
  after: string | null;
  /** The ids that are being sent. If the process dies, the next one goes through them again. */
  batch: string[];
  /** The number of ids done. */
  seen: number;
  lease: RecoveryLease | null;
  /** When its last turn ended; absent before the first one. */
  servedAt?: Date;
  startedAt: Date;
  endedAt?: Date;
  expiresAt?: Date;
}

export type RecoveryModel = Model<RecoveryDocument>;

const recoveryLease = new Schema<RecoveryLease>(
  { owner: requiredText, token: requiredText, until: requiredDate },
  embedded,
);

const recoverySchema = new Schema<RecoveryDocument>(
  {
    _id: String,
    userId: requiredText,
    webhookId: requiredText,
    state: { ...requiredText, enum: ['running', 'done'] },
    since: requiredDate,
    until: requiredDate,
    states: [String],
    found: requiredNumber,
    resent: requiredNumber,
    delivered: requiredNumber,
    failed: requiredNumber,
    phase: { ...requiredText, enum: ['deliveries', 'events'] },
    after: { type: String, default: null },
    batch: [String],
    seen: requiredNumber,
    lease: { type: recoveryLease, default: null },
    servedAt: schemaDate,
    startedAt: requiredDate,
    endedAt: schemaDate,
    expiresAt: schemaDate,
  },
  schemaOptions,
)
  .index({ state: 1, webhookId: 1 }, { name: 'running', unique: true, partialFilterExpression: { state: 'running' } })
  .index({ webhookId: 1, _id: -1 }, { name: 'webhookRecoveries' })
  .index({ expiresAt: 1 }, { name: 'expiry', expireAfterSeconds: 0 });

/** The recoveries of one gateway: model `<prefix>Recovery`, collection `<prefix>recoveries`. */
export const createRecoveryModel = modelFactory('Recovery', 'recoveries', recoverySchema);
