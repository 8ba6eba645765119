import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../../mongo/collection.ts';

/** What one process has reserved of a balance. */
export interface StoredReservation {
  readonly holder: string;
  /** Micro-credits. */
  readonly amount: number;
  /** When it lapses, by the database's clock. */
  readonly until: Date;
  /** The number of the holder's request: only a later request replaces it. */
  readonly turn: number;
}

/** The balance of one account. */
export interface AccountDocument {
  /** The user id. */
  _id: string;
  /** Micro-credits, a whole number: the sum of the account's ledger. */
  balance: number;
  /** Whether it is below the threshold, and the account has been told. */
  low: boolean;
  /** Whether it is zero or less, and the account has been told. */
  depleted: boolean;
  slices: StoredReservation[];
  /** Counts the transactions that charged it. */
  turn?: number;
}

/** One entry of the ledger. It is never changed and never removed. */
export interface LedgerDocument {
  /** What it is for: the id of a usage record, a payment's, the reference of a top-up. Each is booked once. */
  _id: string;
  userId: string;
  kind: 'usage' | 'top_up' | 'payment' | 'initial';
  /** Micro-credits, a whole number; less than zero for what was spent. */
  amount: number;
  at: Date;
}

export type AccountModel = Model<AccountDocument>;
export type LedgerModel = Model<LedgerDocument>;

const storedReservation = new Schema<StoredReservation>(
  { holder: { type: String, required: true }, amount: { type: Number, required: true }, until: Date, turn: Number },
  { _id: false },
);

const accountSchema = new Schema<AccountDocument>(
  {
    _id: String,
    balance: { type: Number, required: true },
    low: { type: Boolean, required: true },
    depleted: { type: Boolean, required: true },
    slices: [storedReservation],
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
