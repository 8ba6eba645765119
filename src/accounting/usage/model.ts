import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../../mongo/collection.ts';
import type { CallEnding, UsageRecord } from '../../options/options.ts';

/** One model call, as it is stored. The record is open until the call ends. */
export interface UsageDocument extends Omit<UsageRecord, 'id' | 'ending'> {
  /** `use_…` */
  readonly _id: string;
  /** `null` while the call is under way. */
  readonly ending: CallEnding | null;
  /** Whether it is in the counters; absent while the call is under way. */
  readonly counted?: boolean;
  /** It cannot be counted, and was set aside so that the others can. */
  readonly uncountable?: true;
}

/** What several calls have used together. */
export interface UsageSums {
  requests: number;
  /** Includes cached ones. */
  inputTokens: number;
  cachedInputTokens: number;
  /** Includes reasoning. */
  outputTokens: number;
  reasoningTokens: number;
  images: number;
  seconds: number;
  characters: number;
}

/** What an account has used on one day, of one model, with one key. */
export interface CounterDocument extends UsageSums {
  /** Account, day, model and key, as JSON. */
  _id: string;
  userId: string;
  /** UTC, `2026-01-31`. */
  day: string;
  /** The name that callers use; `null` for calls that name no model. */
  model: string | null;
  /** `null` if the host authenticates by other means. */
  keyId: string | null;
  /** What it cost; absent if nothing has a price. */
  microCredits?: number;
}

/** What an account has used in one day or month, and which thresholds were published. */
export interface PeriodDocument extends UsageSums {
  /** Account, period and start, as JSON. */
  _id: string;
  userId: string;
  period: 'daily' | 'monthly';
  /** UTC, `2026-01-31` or `2026-01`. */
  start: string;
  /** What it cost; absent if nothing has a price. */
  microCredits?: number;
  /** The thresholds that have been published, in percent. */
  announced?: number[];
}

/** What an account has used with one key, from its first call on. */
export interface KeyTotalDocument extends UsageSums {
  /** Account and key, as JSON. */
  _id: string;
  userId: string;
  keyId: string;
  /** What it cost; absent if nothing has a price. */
  microCredits?: number;
}

export type UsageModel = Model<UsageDocument>;
export type CounterModel = Model<CounterDocument>;
export type PeriodModel = Model<PeriodDocument>;
export type KeyTotalModel = Model<KeyTotalDocument>;

const amounts = {
  inputTokens: { type: Number, required: true },
  cachedInputTokens: { type: Number, required: true },
  outputTokens: { type: Number, required: true },
  images: { type: Number, required: true },
  // absent in what earlier versions have stored
  reasoningTokens: { type: Number, default: 0 },
  seconds: { type: Number, default: 0 },
  characters: { type: Number, default: 0 },
} as const;

const sums = { requests: { type: Number, required: true }, ...amounts } as const;

const schema = new Schema<UsageDocument>(
  {
    _id: String,
    requestId: { type: String, required: true },
    userId: { type: String, required: true },
    keyId: { type: String, default: null },
    endpoint: { type: String, required: true },
    model: { type: String, default: null },
    upstream: { type: String, required: true },
    ...amounts,
    estimated: { type: Boolean, required: true },
    ending: { type: String, default: null },
    startedAt: { type: Date, required: true },
    durationMs: { type: Number, required: true },
    firstByteMs: { type: Number, required: true },
    counted: Boolean,
    uncountable: Boolean,
  },
  durableSchema,
)
  .index({ userId: 1, startedAt: 1 }, { name: 'userPeriod' })
  .index({ startedAt: 1 }, { name: 'open', partialFilterExpression: { ending: null } })
  .index({ counted: 1, _id: 1 }, { name: 'uncounted', partialFilterExpression: { counted: false } });

const counterSchema = new Schema<CounterDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    day: { type: String, required: true },
    model: { type: String, default: null },
    keyId: { type: String, default: null },
    microCredits: Number,
    ...sums,
  },
  durableSchema,
)
  .index({ userId: 1, day: 1 }, { name: 'userDay' })
  .index({ userId: 1, keyId: 1, day: 1 }, { name: 'userKeyDay' });

const periodSchema = new Schema<PeriodDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    period: { type: String, enum: ['daily', 'monthly'], required: true },
    start: { type: String, required: true },
    microCredits: Number,
    announced: [Number],
    ...sums,
  },
  durableSchema,
).index({ start: 1, userId: 1 }, { name: 'monthAccounts', partialFilterExpression: { period: 'monthly' } });

const keyTotalSchema = new Schema<KeyTotalDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    keyId: { type: String, required: true },
    microCredits: Number,
    ...sums,
  },
  durableSchema,
);

/** The usage of one gateway: model `<prefix>Usage`, collection `<prefix>usage`. */
export function createUsageModel(connection: Connection, prefix: string): UsageModel {
  return modelOf(connection, `${prefix}Usage`, schema, `${prefix}usage`);
}

/** The counters of one gateway: model `<prefix>UsageCounter`, collection `<prefix>usage_counters`. */
export function createCounterModel(connection: Connection, prefix: string): CounterModel {
  return modelOf(connection, `${prefix}UsageCounter`, counterSchema, `${prefix}usage_counters`);
}

/** The periods of one gateway: model `<prefix>UsagePeriod`, collection `<prefix>usage_periods`. */
export function createPeriodModel(connection: Connection, prefix: string): PeriodModel {
  return modelOf(connection, `${prefix}UsagePeriod`, periodSchema, `${prefix}usage_periods`);
}

/** The totals of the keys of one gateway: model `<prefix>UsageKeyTotal`, collection `<prefix>usage_key_totals`. */
export function createKeyTotalModel(connection: Connection, prefix: string): KeyTotalModel {
  return modelOf(connection, `${prefix}UsageKeyTotal`, keyTotalSchema, `${prefix}usage_key_totals`);
}
