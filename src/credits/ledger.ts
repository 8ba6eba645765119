import type { ClientSession } from 'mongoose';
import { GatewayError } from '../errors.ts';
import { durableCollection } from '../events/model.ts';
import type { EventInput } from '../events/publication.ts';
import type { PublishOptions } from '../events/service.ts';
import type { Logger } from '../options.ts';
import type { AccountDocument, AccountModel, LedgerDocument, LedgerModel } from './model.ts';
import { toCredits } from './price.ts';

export interface LedgerDeps {
  readonly accounts: AccountModel;
  readonly ledger: LedgerModel;
  readonly publish: (event: EventInput, options: PublishOptions) => Promise<unknown>;
  /** Micro-credits; 0 for never. */
  readonly lowThreshold: number;
  readonly logger: Logger;
}

/** An entry to be booked. */
export type Entry = Omit<LedgerDocument, 'at'>;

/** The append-only ledger, and the balances that are its sums. */
export interface Ledger {
  /**
   * Books entries of one account that are not booked yet, moves its balance and publishes what it falls below. To be
   * called in a transaction: all of it is done, or nothing.
   * @returns how much the balance moved, in micro-credits
   */
  book(userId: string, entries: readonly Entry[], session?: ClientSession): Promise<number>;
  /** Which of these are booked. */
  booked(ids: readonly string[]): Promise<string[]>;
  /** Micro-credits; 0 for an account without a ledger. */
  balance(userId: string): Promise<number>;
}

/** The balance moved, and with it what is said of it. A new account has nothing and need not be told so. */
function moved(by: number, lowThreshold: number) {
  const balance = { $add: [{ $ifNull: ['$balance', 0] }, by] };
  return [
    { $set: { balance, slices: { $ifNull: ['$slices', []] } } },
    { $set: { low: { $lt: ['$balance', lowThreshold] }, depleted: { $lte: ['$balance', 0] } } },
  ];
}

export function createLedger({ accounts, ledger, publish, lowThreshold, logger }: LedgerDeps): Ledger {
  const accountCollection = durableCollection(accounts);
  const ledgerCollection = durableCollection(ledger);

  async function tell(before: AccountDocument, balance: number, cause: string, session?: ClientSession): Promise<void> {
    const { _id: userId, low, depleted } = before;
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
    if (!low && balance < lowThreshold) {
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

  return {
    async book(userId, entries, session) {
      const within = session ? { session } : {};
      const known = new Set(
        await booked(
          entries.map(({ _id }) => _id),
          session,
        ),
      );
      const fresh = entries.filter(({ _id }) => !known.has(_id));
      const last = fresh.at(-1);
      if (!last) return 0;
      const at = new Date();
      await ledgerCollection.insertMany(
        fresh.map((entry) => ({ ...entry, at })),
        within,
      );
      const by = fresh.reduce((sum, { amount }) => sum + amount, 0);
      const before = await accountCollection.findOneAndUpdate({ _id: userId }, moved(by, lowThreshold), {
        upsert: true,
        returnDocument: 'before',
        ...within,
      });
      if (before) await tell(before, before.balance + by, last._id, session);
      return by;
    },
    booked: (ids) => booked(ids),
    async balance(userId) {
      const found = await accountCollection.findOne({ _id: userId }, { projection: { balance: 1 } });
      return found?.balance ?? 0;
    },
  };
}
