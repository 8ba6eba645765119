import type { ClientSession } from 'mongoose';
import { GatewayError } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/service.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { createReadConfirmed } from '../mongo/confirmed-reads.ts';
import type { Logger } from '../options/options.ts';
import type { AccountDocument, AccountModel, LedgerDocument, LedgerModel } from './model.ts';
import { toCredits } from './price.ts';
import { createPublishOrLog } from './publish-or-log.ts';

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

/** An entry, and who holds what it costs until it is booked, if anybody. */
export type Booking = LedgerEntry & { readonly holder?: string | undefined };

/** Bookings by their accounts. */
type Entries = ReadonlyMap<string, readonly Booking[]>;

function inSession(session: ClientSession | undefined) {
  // outside the transaction the driver would write all the same, and part of an aborted transaction would be stored
  if (session && !session.inTransaction()) throw new Error('the transaction of a write has ended');
  return session ? { session } : {};
}

/**
 * Moves the balance by these entries, and derives from it whether it is low or depleted. What is charged is no longer reserved: neither of the
 * process that has recorded the call, nor for the record alone.
 */
function movedBy(entries: readonly Booking[], amount: number, lowThreshold: number) {
  const charged = new Map<string, number>();
  for (const { holder, amount: moved } of entries) {
    if (holder !== undefined) charged.set(holder, (charged.get(holder) ?? 0) - moved);
  }
  const ids = entries.map(({ _id }) => _id);
  const kept = { $filter: { input: '$reservations', cond: { $not: { $in: ['$$this.holder', ids] } } } };
  const costs = [...charged].map(([holder, cost]) => ({ $cond: [{ $eq: ['$$this.holder', holder] }, cost, 0] }));
  const more = { charged: { $add: ['$$this.charged', ...costs] } };
  const reservations = { $map: { input: kept, in: { $mergeObjects: ['$$this', more] } } };
  return [
    {
      $set: {
        balance: { $add: [{ $ifNull: ['$balance', 0] }, amount] },
        reservations: { $ifNull: [reservations, []] },
      },
    },
    { $set: { low: { $lt: ['$balance', lowThreshold] }, depleted: { $lte: ['$balance', 0] } } },
  ];
}

/** The append-only ledger, and the balances that are its sums. Micro-credits. */
export class Ledger {
  readonly #initial: number;
  readonly #lowThreshold: number;
  readonly #entries;
  readonly #accounts;
  readonly #readConfirmed;
  readonly #publishOrLog;

  constructor({ accounts, ledger, publish, lowThreshold, initial, logger }: LedgerDeps) {
    this.#initial = initial;
    this.#lowThreshold = lowThreshold;
    this.#entries = durableCollection(ledger);
    this.#accounts = durableCollection(accounts);
    this.#readConfirmed = createReadConfirmed<AccountDocument>(this.#accounts);
    this.#publishOrLog = createPublishOrLog(publish, logger);
  }

  /**
   * Makes a transaction the only writer of these accounts until it ends. Must be its first step: calls are reserved
   * all the time, and a write between the begin of the transaction and its own would abort it.
   */
  async lock(userIds: readonly string[], session: ClientSession | undefined): Promise<void> {
    if (!session) return;
    await this.#accounts.updateMany({ _id: { $in: [...userIds] } }, { $inc: { turn: 1 } }, { session });
  }

  /** Gives an account that has no ledger its balance, with what it begins with. */
  async open(userId: string, session?: ClientSession): Promise<void> {
    if (this.#initial > 0) await this.book(new Map([[userId, []]]), session);
    else await this.#move(userId, [], session);
  }

  /**
   * Books entries of accounts that are not booked yet, moves the balances and publishes what they fall below. Call it in a
   * transaction, which does all of it or nothing.
   */
  async book(accounts: Entries, session?: ClientSession): Promise<void> {
    await this.#write(accounts, [...accounts.values()].flat(), session);
  }

  /** The same for entries that are not booked, without looking them up. Rejects with code 11000 if one is. */
  async bookNew(accounts: Entries, session: ClientSession): Promise<void> {
    await this.#write(accounts, [], session);
  }

  /**
   * Books what was bought or given, once for each id.
   * @throws GatewayError `idempotency_conflict` if the id was used for another amount; `invalid_value` for too much
   */
  async add(entry: LedgerEntry, session?: ClientSession): Promise<void> {
    const { _id, userId, amount } = entry;
    const stored = await this.#entries.findOne({ _id }, inSession(session));
    if (stored && stored.amount !== amount) {
      const message = `reference: was used for ${toCredits(stored.amount)} credits; another top-up needs another one`;
      throw new GatewayError('idempotency_conflict', message, { param: 'reference' });
    }
    if (stored) return;
    await this.#requireRoom(userId, amount, session);
    await this.book(new Map([[userId, [entry]]]), session);
  }

  /** Which of these entries are booked. */
  async booked(ids: readonly string[], session?: ClientSession): Promise<string[]> {
    const options = { projection: { _id: 1 }, ...inSession(session) } as const;
    const entries = await this.#entries.find({ _id: { $in: [...ids] } }, options).toArray();
    return entries.map(({ _id }) => _id);
  }

  /** The initial balance if the account certainly has no ledger. */
  async balance(userId: string): Promise<number> {
    const find = () => this.#accounts.findOne({ _id: userId }, { projection: { balance: 1 } });
    const account = await this.#readConfirmed(userId, find);
    return account?.balance ?? this.#initial;
  }

  /** The same of several accounts, by a usual read. */
  async balances(userIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const documents = await this.#accounts
      .find({ _id: { $in: [...userIds] } }, { projection: { balance: 1 }, ...inOneBatch })
      .toArray();
    const stored = new Map(documents.map(({ _id, balance }) => [_id, balance]));
    return new Map(userIds.map((userId) => [userId, stored.get(userId) ?? this.#initial]));
  }

  /** The first entry of every ledger; none if accounts begin with nothing. */
  #opening(userId: string): LedgerEntry[] {
    return this.#initial > 0 ? [{ _id: `initial:${userId}`, userId, kind: 'initial', amount: this.#initial }] : [];
  }

  /** @param doubtful the entries that may be booked */
  async #write(accounts: Entries, doubtful: readonly LedgerEntry[], session?: ClientSession): Promise<void> {
    const openings = [...accounts.keys()].flatMap((userId) => this.#opening(userId));
    const ids = [...openings, ...doubtful].map(({ _id }) => _id);
    const known = new Set(ids.length > 0 ? await this.booked(ids, session) : []);
    const at = new Date();
    const fresh = [...accounts].map(([userId, entries]) => ({
      userId,
      entries: [...this.#opening(userId), ...entries].filter(({ _id }) => !known.has(_id)),
    }));
    const documents = fresh.flatMap(({ entries }) =>
      entries.map(({ _id, kind, amount, userId }) => ({ _id, userId, kind, amount, at })),
    );
    if (documents.length > 0) await this.#entries.insertMany(documents, { ordered: false, ...inSession(session) });
    for (const { userId, entries } of fresh) if (entries.length > 0) await this.#move(userId, entries, session);
  }

  /** Moves the balance of an account by these entries, and publishes what it falls below, in the same transaction. */
  async #move(userId: string, entries: readonly Booking[], session?: ClientSession): Promise<void> {
    const by = entries.reduce((sum, { amount }) => sum + amount, 0);
    const stored = await this.#accounts.findOneAndUpdate({ _id: userId }, movedBy(entries, by, this.#lowThreshold), {
      upsert: true,
      returnDocument: 'before',
      ...inSession(session),
    });
    // a new account gets events about what it spends at once, but none because it begins with nothing
    const before = stored ?? { balance: 0, low: this.#initial < this.#lowThreshold, depleted: this.#initial <= 0 };
    const balance = before.balance + by;
    const threshold = this.#lowThreshold;
    const cause = entries.at(-1)?._id;
    const publish = (type: string, data: object) =>
      this.#publishOrLog(
        { type, userId, data: { user_id: userId, ...data } },
        { idempotencyKey: `${type}:${cause}`, ...inSession(session) },
      );
    if (!before.low && balance < threshold && threshold > 0) {
      await publish('credits.low', { credits_remaining: toCredits(balance), threshold: toCredits(threshold) });
    }
    if (!before.depleted && balance <= 0) await publish('credits.depleted', { credits_remaining: 0 });
  }

  /** @throws GatewayError `invalid_value` if the balance would get too large to be exact */
  async #requireRoom(userId: string, amount: number, session?: ClientSession): Promise<void> {
    const account = await this.#accounts.findOne({ _id: userId }, inSession(session));
    if (Number.isSafeInteger((account?.balance ?? this.#initial) + amount)) return;
    const message = 'credits: the balance of an account can be 9,000,000,000 credits at most; add fewer';
    throw new GatewayError('invalid_value', message, { param: 'credits' });
  }
}
