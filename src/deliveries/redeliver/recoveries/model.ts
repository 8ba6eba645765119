import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../../../mongo/collection.ts';

/** What is recovered. */
export type RecoveryState = 'failed' | 'canceled' | 'skipped';

/** A process' right to carry a recovery on. */
export interface RecoveryLease {
  owner: string;
  token: string;
  /** By the database's clock. */
  until: Date;
}

/** One recovery of a webhook: what was asked for, and how far it has come. */
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
  /** First the deliveries that ended without success, then the events that were missed. */
  phase: 'deliveries' | 'events';
  /** The id that everything is done up to, in this phase. */
  after: string | null;
  /** What is being sent; after the death of its process it is gone through again. */
  batch: string[];
  /** How much has been gone through. */
  seen: number;
  lease: RecoveryLease | null;
  /** When a process last left it to wait for another turn; absent before its first turn. */
  servedAt?: Date;
  startedAt: Date;
  endedAt?: Date;
  expiresAt?: Date;
}

export type RecoveryModel = Model<RecoveryDocument>;

const lease = new Schema<RecoveryLease>(
  {
    owner: { type: String, required: true },
    token: { type: String, required: true },
    until: { type: Date, required: true },
  },
  { _id: false, strict: 'throw' },
);

const count = { type: Number, required: true } as const;

const schema = new Schema<RecoveryDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    webhookId: { type: String, required: true },
    state: { type: String, enum: ['running', 'done'], required: true },
    since: { type: Date, required: true },
    until: { type: Date, required: true },
    states: [String],
    found: count,
    resent: count,
    delivered: count,
    failed: count,
    phase: { type: String, enum: ['deliveries', 'events'], required: true },
    after: { type: String, default: null },
    batch: [String],
    seen: count,
    lease: { type: lease, default: null },
    servedAt: Date,
    startedAt: { type: Date, required: true },
    endedAt: Date,
    expiresAt: Date,
  },
  durableSchema,
)
  .index({ state: 1, webhookId: 1 }, { name: 'running', unique: true, partialFilterExpression: { state: 'running' } })
  .index({ webhookId: 1, _id: -1 }, { name: 'webhookRecoveries' })
  .index({ expiresAt: 1 }, { name: 'expiry', expireAfterSeconds: 0 });

/** The recoveries of one gateway: model `<prefix>Recovery`, collection `<prefix>recoveries`. */
export function createRecoveryModel(connection: Connection, prefix: string): RecoveryModel {
  return modelOf(connection, `${prefix}Recovery`, schema, `${prefix}recoveries`);
}
