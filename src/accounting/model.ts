import { type Connection, type Model, Schema } from 'mongoose';
import { modelFactory, schemaDate, schemaOptions } from '../mongo/collection.ts';
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
  /** Who holds what it costs until it is charged: the process that recorded it, as it reserves of the account. Absent where nobody does. */
  readonly holder?: string | undefined;
  /** It cannot be counted, and was set aside so that the others can. */
  readonly uncountable?: true;
}

/** What several calls have used together. */
export interface UsageSums {
  requests: number;
  /** Includes cached ones. */
  inputTokens: number;
  cachedInputTokens: number;
  /** Absent where there were none. */
  cacheWriteTokens?: number | undefined;
  cacheWriteHourTokens?: number | undefined;
  /** Includes reasoning. */
  outputTokens: number;
  reasoningTokens: number;
  /** Audio, in input and output. Absent where there was none. */
  inputAudioTokens?: number | undefined;
  cachedInputAudioTokens?: number | undefined;
  outputAudioTokens?: number | undefined;
  /** Calls of hosted tools. Absent where there were none. */
  webSearchCalls?: number | undefined;
  fileSearchCalls?: number | undefined;
  codeInterpreterCalls?: number | undefined;
  images: number;
  seconds: number;
  characters: number;
  /** Absent where there were none. */
  units?: number | undefined;
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

const amounts = {
  inputTokens: { type: Number, required: true },
  cachedInputTokens: { type: Number, required: true },
  outputTokens: { type: Number, required: true },
  images: { type: Number, required: true },
  // absent in what earlier versions have stored
  reasoningTokens: { type: Number, default: 0 },
  seconds: { type: Number, default: 0 },
  characters: { type: Number, default: 0 },
  cacheWriteTokens: Number,
  cacheWriteHourTokens: Number,
  inputAudioTokens: Number,
  cachedInputAudioTokens: Number,
  outputAudioTokens: Number,
  webSearchCalls: Number,
  fileSearchCalls: Number,
  codeInterpreterCalls: Number,
  units: Number,
} as const;

const sums = { requests: { type: Number, required: true }, ...amounts, microCredits: Number } as const;

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
    imageModels: { type: [String], default: undefined },
    stored: Object,
    estimated: { type: Boolean, required: true },
    ending: { type: String, default: null },
    startedAt: { type: schemaDate, required: true },
    durationMs: { type: Number, required: true },
    firstByteMs: { type: Number, required: true },
    counted: Boolean,
    holder: String,
    uncountable: Boolean,
  },
  schemaOptions,
)
  .index({ userId: 1, startedAt: 1 }, { name: 'userPeriod' })
  .index({ startedAt: 1 }, { name: 'open', partialFilterExpression: { ending: null } })
  .index({ counted: 1, _id: 1 }, { name: 'uncounted', partialFilterExpression: { counted: false } });
const createUsageModel = modelFactory('Usage', 'usage', usageSchema);

const counterSchema = new Schema<CounterDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    day: { type: String, required: true },
    model: { type: String, default: null },
    keyId: { type: String, default: null },
    ...sums,
  },
  schemaOptions,
)
  .index({ userId: 1, day: 1 }, { name: 'userDay' })
  .index({ userId: 1, keyId: 1, day: 1 }, { name: 'userKeyDay' });
const createCounterModel = modelFactory('UsageCounter', 'usage_counters', counterSchema);

const periodSchema = new Schema<PeriodDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    period: { type: String, enum: ['daily', 'monthly'], required: true },
    start: { type: String, required: true },
    announced: [Number],
    ...sums,
  },
  schemaOptions,
).index({ start: 1, userId: 1 }, { name: 'monthAccounts', partialFilterExpression: { period: 'monthly' } });
const createPeriodModel = modelFactory('UsagePeriod', 'usage_periods', periodSchema);

const keyTotalSchema = new Schema<KeyTotalDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    keyId: { type: String, required: true },
    ...sums,
  },
  schemaOptions,
);
const createKeyTotalModel = modelFactory('UsageKeyTotal', 'usage_key_totals', keyTotalSchema);

/** The budgets of one account. */
export interface AccountBudgetsDocument {
  /** The account. */
  _id: string;
  /** Empty if they were removed. */
  budgets: Budget[];
}

export type AccountBudgetsModel = Model<AccountBudgetsDocument>;

const accountBudgetsSchema = new Schema<AccountBudgetsDocument>({ _id: String, budgets: storedBudgets }, schemaOptions);
const createAccountBudgetsModel = modelFactory('AccountBudgets', 'account_budgets', accountBudgetsSchema);

/** What one process holds of a balance for its calls, or what is held for one call that an upstream works on. Micro-credits. */
interface StoredReservation {
  /** The process, with a number for each time that it took the account into its memory; or the usage record of the call. */
  readonly holder: string;
  /** All that was reserved or spent, less what was released. */
  readonly taken: number;
  /** What the balance was charged of it: the difference is reserved. */
  readonly charged: number;
  /** When it lapses, by the database's clock. */
  readonly until: Date;
  /** The number of the process's update. Only a later one replaces it. */
  readonly turn?: number;
  /** What was free of the balance before the last update, by which the process knows what that has granted. */
  readonly free?: number;
  /** What others held then. */
  readonly others?: number;
  /** What of it was reserved for calls to come. */
  readonly spare?: number;
  /** What calls have asked for lately and not got. Nothing is reserved for calls to come that leaves less than that, and plenty. */
  readonly unmet?: number;
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
  /** @default none */
  reservations?: StoredReservation[];
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

const accountSchema = new Schema<AccountDocument>(
  {
    _id: String,
    balance: { type: Number, required: true },
    low: { type: Boolean, required: true },
    depleted: { type: Boolean, required: true },
    reservations: [Object],
    turn: Number,
  },
  schemaOptions,
);
const createAccountModel = modelFactory('CreditAccount', 'credit_accounts', accountSchema);

const ledgerSchema = new Schema<LedgerDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    kind: { type: String, enum: ['usage', 'top_up', 'payment', 'initial'], required: true },
    amount: { type: Number, required: true },
    at: { type: schemaDate, required: true },
  },
  schemaOptions,
).index({ userId: 1, at: 1 }, { name: 'userLedger' });
const createLedgerModel = modelFactory('CreditEntry', 'credit_ledger', ledgerSchema);

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
    created: { type: schemaDate, required: true },
  },
  schemaOptions,
);
const createPaymentModel = modelFactory('Payment', 'payments', paymentSchema);

/** What one key or account has used in one minute, in all processes. */
export interface RateDocument {
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
    expiresAt: { type: schemaDate, required: true },
  },
  // written with w: 1: the next exchange writes again what a failover loses
  schemaOptions,
).index({ expiresAt: 1 }, { name: 'expiry', expireAfterSeconds: 0 });
const createRateModel = modelFactory('Rate', 'rates', rateSchema);

const exceededSchema = new Schema<ExceededDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    apiKeyId: { type: String, default: null },
    limit: { type: Number, required: true },
    windowStart: { type: schemaDate, required: true },
    windowEnd: { type: schemaDate, required: true },
    counts: { type: Schema.Types.Mixed, required: true },
    state: { type: String, enum: ['open', 'closed', 'published'], required: true },
    expiresAt: schemaDate,
  },
  schemaOptions,
)
  .index({ state: 1, windowEnd: 1 }, { name: 'due', partialFilterExpression: { state: { $in: ['open', 'closed'] } } })
  .index({ expiresAt: 1 }, { name: 'expiry', expireAfterSeconds: 0 });
const createExceededModel = modelFactory('Exceeded', 'exceeded', exceededSchema);

/** What model calls use and cost, and what accounts pay, of one gateway; every collection's name starts with the prefix. */
export function createAccountingModels(connection: Connection, prefix: string) {
  return {
    usage: createUsageModel(connection, prefix),
    counters: createCounterModel(connection, prefix),
    periods: createPeriodModel(connection, prefix),
    keyTotals: createKeyTotalModel(connection, prefix),
    payments: createPaymentModel(connection, prefix),
    accountBudgets: createAccountBudgetsModel(connection, prefix),
    accounts: createAccountModel(connection, prefix),
    ledger: createLedgerModel(connection, prefix),
    rates: createRateModel(connection, prefix),
    exceeded: createExceededModel(connection, prefix),
  };
}

export type AccountingModels = ReturnType<typeof createAccountingModels>;
