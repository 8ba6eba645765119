import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../../mongo/collection.ts';

/** What one key or account has used in one minute, in all processes. */
interface RateDocument {
  /** `<minutes since 1970>:<subject>` */
  _id: string;
  /** The total of each process, so that writing it twice changes nothing. */
  used: Record<string, { requests: number; tokens: number }>;
  /** The TTL index removes it then. */
  expiresAt: Date;
}

/** The refused calls of one key in one window, which become one `rate_limit.exceeded`. */
export interface ExceededDocument {
  /** Window, account and key, as JSON. */
  _id: string;
  userId: string;
  /** `null` if the host authenticates by other means. */
  apiKeyId: string | null;
  /** The limit that was exceeded first in this window. */
  limit: number;
  windowStart: Date;
  windowEnd: Date;
  /** The total of each process, so that writing it twice changes nothing. */
  counts: Record<string, number>;
  /** `open` until the window is over; then counts no longer change, and it is published. */
  state: 'open' | 'closed' | 'published';
  /** Set when it is published: the TTL index removes it then. */
  expiresAt?: Date;
}

export type RateModel = Model<RateDocument>;
export type ExceededModel = Model<ExceededDocument>;

const rateSchema = new Schema<RateDocument>(
  {
    _id: String,
    used: { type: Schema.Types.Mixed, required: true },
    expiresAt: { type: Date, required: true },
  },
  // the next exchange writes again what a failover loses
  { ...durableSchema, writeConcern: { w: 1 } },
).index({ expiresAt: 1 }, { name: 'expiry', expireAfterSeconds: 0 });

const exceededSchema = new Schema<ExceededDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    apiKeyId: { type: String, default: null },
    limit: { type: Number, required: true },
    windowStart: { type: Date, required: true },
    windowEnd: { type: Date, required: true },
    counts: { type: Schema.Types.Mixed, required: true },
    state: { type: String, enum: ['open', 'closed', 'published'], required: true },
    expiresAt: Date,
  },
  durableSchema,
)
  .index({ state: 1, windowEnd: 1 }, { name: 'due', partialFilterExpression: { state: { $in: ['open', 'closed'] } } })
  .index({ expiresAt: 1 }, { name: 'expiry', expireAfterSeconds: 0 });

/** The shared rates of one gateway: model `<prefix>Rate`, collection `<prefix>rates`. */
export function createRateModel(connection: Connection, prefix: string): RateModel {
  return modelOf(connection, `${prefix}Rate`, rateSchema, `${prefix}rates`);
}

/** The refused calls of one gateway: model `<prefix>Exceeded`, collection `<prefix>exceeded`. */
export function createExceededModel(connection: Connection, prefix: string): ExceededModel {
  return modelOf(connection, `${prefix}Exceeded`, exceededSchema, `${prefix}exceeded`);
}
