import type { ClientSession } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import type { EventInput, PublishOptions } from '../../events/publication.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { createReadConfirmed } from '../../mongo/confirmed-reads.ts';
import { bareWrites } from '../../mongo/writes/bare-writes.ts';
import type { Logger } from '../../options/options.ts';
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

/** Entries to be booked, by their accounts; a new account is opened, even without any. */
export type Entries = ReadonlyMap<string, readonly Entry[]>;

/** The append-only ledger, and the balances that are its sums. */
export interface Ledger {
  /**
   * Makes a transaction the only writer of these accounts until it ends. Must be its first step: another write between its
   * begin and its own would abort it, and processes write their reservations all the time.
   */
  reserve(userIds: readonly string[], session: ClientSession | undefined): Promise<void>;
  /**
   * Books entries of accounts that are not booked yet, moves the balances and publishes what they fall below. To be called in
   * a transaction: all of it is done, or nothing.
   */
  book(accounts: Entries, session?: ClientSession): Promise<void>;
  /** The same for entries that are not booked, which then need not be looked up. Rejects with code 11000 where one is. */
  bookNew(accounts: Entries, session: ClientSession): Promise<void>;
  /** Books what is bought or given; once for its id. @throws GatewayError `idempotency_conflict` for another amount; `invalid_value` for too much */
  add(entry: Entry, session?: ClientSession): Promise<void>;
  /** Which of these are booked. */
  booked(ids: readonly string[]): Promise<string[]>;
  /** Micro-credits; what accounts begin with for one that certainly has no ledger. */
  balance(userId: string): Promise<number>;
}

function toDocument({ _id, userId, kind, amount }: Entry, at: Date): LedgerDocument {
  return { _id, userId, kind, amount, at };
}

/** Moves the balance, and derives from it whether it is low or depleted. */
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
  const bareLedger = bareWrites(ledger);
  const readConfirmed = createReadConfirmed<AccountDocument>(accountCollection);

  /** A new account gets events about what it spends at once, but none because it begins with nothing. */
  const newAccount = { balance: 0, low: initial < lowThreshold, depleted: initial <= 0 };

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
        // a retry would fail too, and must not prevent the charge
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

  /** @throws GatewayError `invalid_value` where the balance would get too large to be exact */
  async function requireRoom({ userId, amount }: Entry, session?: ClientSession): Promise<void> {
    const found = await accountCollection.findOne({ _id: userId }, session ? { session } : {});
    if (Number.isSafeInteger((found?.balance ?? initial) + amount)) return;
    const message = 'credits: the balance of an account can be 9,000,000,000 credits at most; add fewer';
    throw new GatewayError('invalid_value', message, { param: 'credits' });
  }

  async function move(userId: string, fresh: readonly Entry[], session?: ClientSession): Promise<void> {
    const by = fresh.reduce((sum, { amount }) => sum + amount, 0);
    const stored = await accountCollection.findOneAndUpdate({ _id: userId }, moved(by, lowThreshold), {
      upsert: true,
      returnDocument: 'before',
      ...(session && { session }),
    });
    const before = stored ?? newAccount;
    await tell(userId, before, before.balance + by, fresh.at(-1)?._id ?? '', session);
  }

  async function write(accounts: Entries, known: ReadonlySet<string>, session?: ClientSession): Promise<void> {
    const at = new Date();
    const fresh = [...accounts].map(([userId, entries]) => ({
      userId,
      entries: [...opening(userId), ...entries].filter(({ _id }) => !known.has(_id)),
    }));
    const documents = fresh.flatMap(({ entries }) => entries.map((entry) => toDocument(entry, at)));
    if (documents.length > 0) await bareLedger.insert(documents, session);
    for (const { userId, entries } of fresh) if (entries.length > 0) await move(userId, entries, session);
  }

  async function book(accounts: Entries, session?: ClientSession): Promise<void> {
    const ids = [...accounts].flatMap(([userId, entries]) => [...opening(userId), ...entries].map(({ _id }) => _id));
    await write(accounts, new Set(await booked(ids, session)), session);
  }

  return {
    book,
    async bookNew(accounts, session) {
      const ids = [...accounts.keys()].flatMap(opening).map(({ _id }) => _id);
      await write(accounts, new Set(ids.length > 0 ? await booked(ids, session) : []), session);
    },
    async add(entry, session) {
      const stored = await ledgerCollection.findOne({ _id: entry._id }, session ? { session } : {});
      if (stored && stored.amount !== entry.amount) {
        const message = `reference: was used for ${toCredits(stored.amount)} credits; another top-up needs another one`;
        throw new GatewayError('idempotency_conflict', message, { param: 'reference' });
      }
      if (stored) return;
      await requireRoom(entry, session);
      await book(new Map([[entry.userId, [entry]]]), session);
    },
    async reserve(userIds, session) {
      if (!session) return;
      await accountCollection.updateMany({ _id: { $in: [...userIds] } }, { $inc: { turn: 1 } }, { session });
    },
    booked: (ids) => booked(ids),
    async balance(userId) {
      const read = () => accountCollection.findOne({ _id: userId }, { projection: { balance: 1 } });
      const found = await readConfirmed(userId, read);
      return found?.balance ?? initial;
    },
  };
}
