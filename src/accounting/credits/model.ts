import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../../mongo/collection.ts';

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
