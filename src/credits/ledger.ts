import type { ClientSession } from 'mongoose';
import { durableCollection } from '../collection.ts';
import { GatewayError } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/publication.ts';
import type { Logger } from '../options.ts';
import type { AccountDocument, AccountModel, LedgerDocument, LedgerModel } from './model.ts';
import { toCredits } from './price.ts';

export interface LedgerDeps {
  readonly accounts: AccountModel;
  readonly ledger: LedgerModel;
  readonly publish: (event: EventInput, options: PublishOptions) => Promise<unknown>;
  /** Micro-credits; 0 for never. */
  readonly lowThreshold: number;
  /** What an account begins with. Micro-credits. */
  readonly initial: number;
  readonly logger: Logger;
}

/** An entry to be booked. */
export type Entry = Omit<LedgerDocument, 'at'>;

/** The append-only ledger, and the balances that are its sums. */
export interface Ledger {
  /**
   * Makes a transaction the one writer of these accounts until it ends. To be done first: a write of another that comes
   * between its begin and its own undoes it, and what processes set aside is written all the time.
   */
  reserve(userIds: readonly string[], session: ClientSession | undefined): Promise<void>;
  /**
   * Books entries of one account that are not booked yet, moves its balance and publishes what it falls below. To be
   * called in a transaction: all of it is done, or nothing.
   */
  book(userId: string, entries: readonly Entry[], session?: ClientSession): Promise<void>;
  /** Books what is bought or given; once for its id. @throws GatewayError `idempotency_conflict` for another amount */
  add(entry: Entry, session?: ClientSession): Promise<void>;
  /** Which of these are booked. */
  booked(ids: readonly string[]): Promise<string[]>;
  /** Micro-credits; what accounts begin with for one without a ledger. */
  balance(userId: string): Promise<number>;
}

/** The balance moved, and with it what is said of it. */
function moved(by: number, lowThreshold: number) {
  const balance = { $add: [{ $ifNull: ['$balance', 0] }, by] };
  return [
    { $set: { balance, slices: { $ifNull: ['$slices', []] } } },
    { $set: { low: { $lt: ['$balance', lowThreshold] }, depleted: { $lte: ['$balance', 0] } } },
  ];
}

export function createLedger({ accounts, ledger, publish, lowThreshold, initial, logger }: LedgerDeps): Ledger {
  const accountCollection = durableCollection(accounts);
  const ledgerCollection = durableCollection(ledger);

  /** A new account is told of what it spends in its first moment, and not that it begins with nothing. */
  const unopened = { balance: 0, low: initial < lowThreshold, depleted: initial <= 0 };

  async function tell(
    userId: string,
    { low, depleted }: Pick<AccountDocument, 'low' | 'depleted'>,
    balance: number,
    cause: string,
    session?: ClientSession,
  ): Promise<void> {
    const send = async (type: string, data: object): Promise<void> => {
      const event = { type, userId, data: { user_id: userId, ...data } };
      const idempotencyKey = `${type}:${cause}`;
      try {
        await publish(event, { idempotencyKey, ...(session && { session }) });
      } catch (error) {
        const refused = error instanceof GatewayError && error.status < 500;
        if (!refused) throw error;
        // trying again would not help, and must not keep the account from being charged
        logger.error('an event about credits cannot be published', { type, reason: error.message });
      }
    };
    if (!low && balance < lowThreshold && lowThreshold > 0) {
      await send('credits.low', { credits_remaining: toCredits(balance), threshold: toCredits(lowThreshold) });
    }
    if (!depleted && balance <= 0) await send('credits.depleted', { credits_remaining: 0 });
  }

  async function booked(ids: readonly string[], session?: ClientSession): Promise<string[]> {
    const found = await ledgerCollection
      .find({ _id: { $in: [...ids] } }, { projection: { _id: 1 }, ...(session && { session }) })
      .toArray();
    return found.map(({ _id }) => _id);
  }

  /** What every ledger begins with; nothing where accounts begin with nothing. */
  function opening(userId: string): Entry[] {
    return initial > 0 ? [{ _id: `initial:${userId}`, userId, kind: 'initial', amount: initial }] : [];
  }

  async function book(userId: string, given: readonly Entry[], session?: ClientSession): Promise<void> {
    const within = session ? { session } : {};
    const entries = [...opening(userId), ...given];
    const ids = entries.map(({ _id }) => _id);
    const known = new Set(await booked(ids, session));
    const fresh = entries.filter(({ _id }) => !known.has(_id));
    const last = fresh.at(-1);
    if (!last) return;
    const at = new Date();
    const documents = fresh.map(({ _id, userId, kind, amount }) => ({ _id, userId, kind, amount, at }));
    await ledgerCollection.insertMany(documents, within);
    const by = fresh.reduce((sum, { amount }) => sum + amount, 0);
    const stored = await accountCollection.findOneAndUpdate({ _id: userId }, moved(by, lowThreshold), {
      upsert: true,
      returnDocument: 'before',
      ...within,
    });
    const before = stored ?? unopened;
    await tell(userId, before, before.balance + by, last._id, session);
  }

  return {
    book,
    async add(entry, session) {
      const stored = await ledgerCollection.findOne({ _id: entry._id }, session ? { session } : {});
      if (stored && stored.amount !== entry.amount) {
        const message = `reference: was used for ${toCredits(stored.amount)} credits; another top-up needs another one`;
        throw new GatewayError('idempotency_conflict', message, { param: 'reference' });
      }
      if (!stored) await book(entry.userId, [entry], session);
    },
    async reserve(userIds, session) {
      if (!session) return;
      await accountCollection.updateMany({ _id: { $in: [...userIds] } }, { $inc: { turn: 1 } }, { session });
    },
    booked: (ids) => booked(ids),
    async balance(userId) {
      const found = await accountCollection.findOne({ _id: userId }, { projection: { balance: 1 } });
      return found?.balance ?? initial;
    },
  };
}
