import type { ClientSession } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import type { EventInput, PublishOptions } from '../../events/service.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { bareWrites } from '../../mongo/writes.ts';
import type { Logger } from '../../options/options.ts';
import { createPublishOrLog } from '../publish-or-log.ts';
import { createPublishLowBalance } from './balance-events.ts';
import { createBalances } from './balances.ts';
import type { AccountModel, LedgerDocument, LedgerModel } from './model.ts';
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

/** An entry, before it is booked. */
export type LedgerEntry = Omit<LedgerDocument, 'at'>;

/** Entries by their accounts. Booking opens a new account even if it has no entries. */
type Entries = ReadonlyMap<string, readonly LedgerEntry[]>;

/** The append-only ledger, and the balances that are its sums. */
export interface Ledger {
  /**
   * Makes a transaction the only writer of these accounts until it ends. Must be its first step: processes renew their
   * leases all the time, and a write between the begin of the transaction and its own would abort it.
   */
  lock(userIds: readonly string[], session: ClientSession | undefined): Promise<void>;
  /**
   * Books entries of accounts that are not booked yet, moves the balances and publishes what they fall below. Call it in a
   * transaction, which does all of it or nothing.
   */
  book(accounts: Entries, session?: ClientSession): Promise<void>;
  /** The same for entries that are not booked, without looking them up. Rejects with code 11000 if one is. */
  bookNew(accounts: Entries, session: ClientSession): Promise<void>;
  /**
   * Books what was bought or given, once for each id.
   * @throws GatewayError `idempotency_conflict` if the id was used for another amount; `invalid_value` for too much
   */
  add(entry: LedgerEntry, session?: ClientSession): Promise<void>;
  /** Which of these entries are booked. */
  booked(ids: readonly string[]): Promise<string[]>;
  /** Micro-credits; the initial balance if the account certainly has no ledger. */
  balance(userId: string): Promise<number>;
  /** The same of several accounts, by a usual read. */
  balances(userIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
}

function toDocument({ _id, userId, kind, amount }: LedgerEntry, at: Date): LedgerDocument {
  return { _id, userId, kind, amount, at };
}

export function createLedger({ accounts, ledger, publish, lowThreshold, initial, logger }: LedgerDeps): Ledger {
  const collection = durableCollection(ledger);
  const bare = bareWrites(ledger);
  const publishLowBalance = createPublishLowBalance(createPublishOrLog(publish, logger), lowThreshold);
  const balances = createBalances({ accounts, publishLowBalance, lowThreshold, initial });

  async function booked(ids: readonly string[], session?: ClientSession): Promise<string[]> {
    const entries = await collection
      .find({ _id: { $in: [...ids] } }, { projection: { _id: 1 }, ...(session && { session }) })
      .toArray();
    return entries.map(({ _id }) => _id);
  }

  /** The first entry of every ledger; none if accounts begin with nothing. */
  function opening(userId: string): LedgerEntry[] {
    return initial > 0 ? [{ _id: `initial:${userId}`, userId, kind: 'initial', amount: initial }] : [];
  }

  async function move(userId: string, entries: readonly LedgerEntry[], session?: ClientSession): Promise<void> {
    const by = entries.reduce((sum, { amount }) => sum + amount, 0);
    await balances.move(userId, by, entries.at(-1)?._id ?? '', session);
  }

  async function write(accounts: Entries, known: ReadonlySet<string>, session?: ClientSession): Promise<void> {
    const at = new Date();
    const fresh = [...accounts].map(([userId, entries]) => ({
      userId,
      entries: [...opening(userId), ...entries].filter(({ _id }) => !known.has(_id)),
    }));
    const documents = fresh.flatMap(({ entries }) => entries.map((entry) => toDocument(entry, at)));
    if (documents.length > 0) await bare.insert(documents, session);
    for (const { userId, entries } of fresh) if (entries.length > 0) await move(userId, entries, session);
  }

  async function book(accounts: Entries, session?: ClientSession): Promise<void> {
    const ids = [...accounts].flatMap(([userId, entries]) => [...opening(userId), ...entries].map(({ _id }) => _id));
    await write(accounts, new Set(await booked(ids, session)), session);
  }

  return {
    lock: balances.lock,
    book,
    async bookNew(accounts, session) {
      const ids = [...accounts.keys()].flatMap(opening).map(({ _id }) => _id);
      await write(accounts, new Set(ids.length > 0 ? await booked(ids, session) : []), session);
    },
    async add(entry, session) {
      const { _id, userId, amount } = entry;
      const stored = await collection.findOne({ _id }, session ? { session } : {});
      if (stored && stored.amount !== amount) {
        const message = `reference: was used for ${toCredits(stored.amount)} credits; another top-up needs another one`;
        throw new GatewayError('idempotency_conflict', message, { param: 'reference' });
      }
      if (stored) return;
      await balances.requireRoom(userId, amount, session);
      await book(new Map([[userId, [entry]]]), session);
    },
    booked: (ids) => booked(ids),
    balance: balances.read,
    balances: balances.readAll,
  };
}
