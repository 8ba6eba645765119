import type { ClientSession } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import { durableCollection, inOneBatch } from '../../mongo/collection.ts';
import { createReadConfirmed } from '../../mongo/confirmed-reads.ts';
import type { PublishLowBalance } from './balance-events.ts';
import type { AccountDocument, AccountModel } from './model.ts';

export interface BalancesDeps {
  readonly accounts: AccountModel;
  readonly publishLowBalance: PublishLowBalance;
  /** Micro-credits; 0 for never. */
  readonly lowThreshold: number;
  /** What an account begins with. Micro-credits. */
  readonly initial: number;
}

/** The balances of the accounts. Micro-credits. */
export interface Balances {
  /** See `Ledger.lock`. */
  lock(userIds: readonly string[], session: ClientSession | undefined): Promise<void>;
  /**
   * Moves a balance, and publishes what it falls below.
   * @param cause the id of the ledger entry that moves it
   */
  move(userId: string, by: number, cause: string, session?: ClientSession): Promise<void>;
  /** @throws GatewayError `invalid_value` if the balance would get too large to be exact */
  requireRoom(userId: string, amount: number, session?: ClientSession): Promise<void>;
  /** The initial balance if the account certainly has no ledger. */
  read(userId: string): Promise<number>;
  /** The same of several accounts, by a usual read. */
  readAll(userIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
}

/** Moves the balance, and derives from it whether it is low or depleted. */
function movedBy(amount: number, lowThreshold: number) {
  const balance = { $add: [{ $ifNull: ['$balance', 0] }, amount] };
  return [
    { $set: { balance, leases: { $ifNull: ['$leases', []] } } },
    { $set: { low: { $lt: ['$balance', lowThreshold] }, depleted: { $lte: ['$balance', 0] } } },
  ];
}

export function createBalances({ accounts, publishLowBalance, lowThreshold, initial }: BalancesDeps): Balances {
  const collection = durableCollection(accounts);
  const readConfirmed = createReadConfirmed<AccountDocument>(collection);

  /** A new account gets events about what it spends at once, but none because it begins with nothing. */
  const newAccount = { balance: 0, low: initial < lowThreshold, depleted: initial <= 0 };

  return {
    async lock(userIds, session) {
      if (!session) return;
      await collection.updateMany({ _id: { $in: [...userIds] } }, { $inc: { turn: 1 } }, { session });
    },
    async move(userId, by, cause, session) {
      const stored = await collection.findOneAndUpdate({ _id: userId }, movedBy(by, lowThreshold), {
        upsert: true,
        returnDocument: 'before',
        ...(session && { session }),
      });
      const before = stored ?? newAccount;
      await publishLowBalance({ userId, before, balance: before.balance + by, cause }, session);
    },
    async requireRoom(userId, amount, session) {
      const account = await collection.findOne({ _id: userId }, session ? { session } : {});
      if (Number.isSafeInteger((account?.balance ?? initial) + amount)) return;
      const message = 'credits: the balance of an account can be 9,000,000,000 credits at most; add fewer';
      throw new GatewayError('invalid_value', message, { param: 'credits' });
    },
    async read(userId) {
      const find = () => collection.findOne({ _id: userId }, { projection: { balance: 1 } });
      const account = await readConfirmed(userId, find);
      return account?.balance ?? initial;
    },
    async readAll(userIds) {
      const documents = await collection
        .find({ _id: { $in: [...userIds] } }, { projection: { balance: 1 }, ...inOneBatch })
        .toArray();
      const stored = new Map(documents.map(({ _id, balance }) => [_id, balance]));
      return new Map(userIds.map((userId) => [userId, stored.get(userId) ?? initial]));
    },
  };
}
