import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../mongo/collection.ts';
import { type Budget, storedBudgets } from '../options/budgets.ts';
import type { CallEnding, UsageRecord } from '../options/options.ts';

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
  /** Sent up to upstreams as files. Absent where nothing was. */
  uploadedBytes?: number;
  /** Sent down to clients as files. Absent where nothing was. */
  downloadedBytes?: number;
  /** What it cost; absent if nothing has a price. */
  microCredits?: number;
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
}

/** What an account has used in one day or month, and which thresholds were published. */
export interface PeriodDocument extends UsageSums {
  /** Account, period and start, as JSON. */
  _id: string;
  userId: string;
  period: 'daily' | 'monthly';
  /** UTC, `2026-01-31` or `2026-01`. */
  start: string;
  /** The thresholds that have been published, in percent. */
  announced?: number[];
}

/** What an account has used with one key, from its first call on. */
export interface KeyTotalDocument extends UsageSums {
  /** Account and key, as JSON. */
  _id: string;
  userId: string;
  keyId: string;
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

const usageSchema = new Schema<UsageDocument>(
  {
    _id: String,
    requestId: { type: String, required: true },
    userId: { type: String, required: true },
    keyId: { type: String, default: null },
    endpoint: { type: String, required: true },
    model: { type: String, default: null },
    upstream: { type: String, required: true },
    ...amounts,
    stored: Object,
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
  return modelOf(connection, `${prefix}Usage`, usageSchema, `${prefix}usage`);
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

/** The budgets of one account. */
interface AccountBudgetsDocument {
  /** The account. */
  _id: string;
  /** Empty if they were removed. */
  budgets: Budget[];
}

export type AccountBudgetsModel = Model<AccountBudgetsDocument>;

const accountBudgetsSchema = new Schema<AccountBudgetsDocument>({ _id: String, budgets: storedBudgets }, durableSchema);

/** The budgets of accounts: model `<prefix>AccountBudgets`, collection `<prefix>account_budgets`. */
export function createAccountBudgetsModel(connection: Connection, prefix: string): AccountBudgetsModel {
  return modelOf(connection, `${prefix}AccountBudgets`, accountBudgetsSchema, `${prefix}account_budgets`);
}

/** What one process has leased of a balance. */
interface StoredLease {
  readonly holder: string;
  /** Micro-credits. */
  readonly amount: number;
  /** When it expires, by the database's clock. */
  readonly until: Date;
  /** The number of the holder's request. Only a later request replaces it. */
  readonly turn: number;
}

/** The balance of one account. */
export interface AccountDocument {
  /** The user id. */
  _id: string;
  /** Micro-credits, a whole number: the sum of the account's ledger. */
  balance: number;
  /** Whether it is below the threshold. Then `credits.low` was published. */
  low: boolean;
  /** Whether it is zero or less. Then `credits.depleted` was published. */
  depleted: boolean;
  leases: StoredLease[];
  /** Counts the transactions that have locked it. */
  turn?: number;
}

/** One entry of the ledger. It never changes and is never deleted. */
export interface LedgerDocument {
  /** Made from the id of the usage record or payment, or the reference of the top-up, so that each is booked once. */
  _id: string;
  userId: string;
  kind: 'usage' | 'top_up' | 'payment' | 'initial';
  /** Micro-credits, a whole number; negative for usage. */
  amount: number;
  at: Date;
}

export type AccountModel = Model<AccountDocument>;
export type LedgerModel = Model<LedgerDocument>;

const storedLease = new Schema<StoredLease>(
  { holder: { type: String, required: true }, amount: { type: Number, required: true }, until: Date, turn: Number },
  { _id: false },
);

const accountSchema = new Schema<AccountDocument>(
  {
    _id: String,
    balance: { type: Number, required: true },
    low: { type: Boolean, required: true },
    depleted: { type: Boolean, required: true },
    leases: [storedLease],
    turn: Number,
  },
  durableSchema,
);

const ledgerSchema = new Schema<LedgerDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    kind: { type: String, enum: ['usage', 'top_up', 'payment', 'initial'], required: true },
    amount: { type: Number, required: true },
    at: { type: Date, required: true },
  },
  durableSchema,
).index({ userId: 1, at: 1 }, { name: 'userLedger' });

/** The balances of one gateway: model `<prefix>CreditAccount`, collection `<prefix>credit_accounts`. */
export function createAccountModel(connection: Connection, prefix: string): AccountModel {
  return modelOf(connection, `${prefix}CreditAccount`, accountSchema, `${prefix}credit_accounts`);
}

/** The ledger of one gateway: model `<prefix>CreditEntry`, collection `<prefix>credit_ledger`. */
export function createLedgerModel(connection: Connection, prefix: string): LedgerModel {
  return modelOf(connection, `${prefix}CreditEntry`, ledgerSchema, `${prefix}credit_ledger`);
}

/** One completed payment. It is stored permanently, so that it cannot be booked twice. */
export interface PaymentDocument {
  /** The payment's id, `pay_…` or `pi_…`, as the host's payment processor has it. */
  _id: string;
  userId: string;
  amount: number;
  currency: string;
  creditsAdded: number;
  /** The id of its `payment.completed`. */
  eventId: string;
  /** The event's `created`. */
  created: Date;
}

export type PaymentModel = Model<PaymentDocument>;

const paymentSchema = new Schema<PaymentDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    amount: { type: Number, required: true },
    currency: { type: String, required: true },
    creditsAdded: { type: Number, required: true },
    eventId: { type: String, required: true },
    created: { type: Date, required: true },
  },
  durableSchema,
);

/** The payments of one gateway: model `<prefix>Payment`, collection `<prefix>payments`. */
export function createPaymentModel(connection: Connection, prefix: string): PaymentModel {
  return modelOf(connection, `${prefix}Payment`, paymentSchema, `${prefix}payments`);
}

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
