import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../../../mongo/collection.ts';

/** What is recovered. */
export type RecoveryState = 'failed' | 'canceled' | 'skipped';

/** A process's right to run a recovery. */
export interface RecoveryLease {
  owner: string;
  token: string;
  /** By the database's clock. */
  until: Date;
}

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
