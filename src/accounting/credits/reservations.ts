import { durableCollection } from '../../mongo/collection.ts';
import { createReadConfirmed } from '../../mongo/confirmed-reads.ts';
import type { AccountDocument, AccountModel } from './model.ts';

/** What a holder has reserved of a balance. Micro-credits. */
export interface ReservedCredits {
  readonly amount: number;
  /** The whole balance, including what other holders have reserved. */
  readonly balance: number;
}

/**
 * Reserves for one holder as much of a balance as it wants and no other holder has, until the lease ends.
 * @param turn higher each time: a request that reaches the database late, after a newer one, changes nothing
 * @returns what is reserved now; `null` when there is certainly no such account
 */
export type ReserveCredits = (userId: string, wanted: number, turn: number) => Promise<ReservedCredits | null>;

/** @param lease how long a reservation lasts unless it is renewed, in milliseconds by the database's clock */
export function createReserveCredits(accounts: AccountModel, holder: string, lease: number): ReserveCredits {
  const collection = durableCollection(accounts);
  const readConfirmed = createReadConfirmed<AccountDocument>(collection);
  const isOwn = { $eq: ['$$this.holder', holder] };
  const isOthers = { $and: [{ $not: [isOwn] }, { $gt: ['$$this.until', '$$NOW'] }] };
  const vars = {
    others: { $filter: { input: '$slices', cond: isOthers } },
    own: { $arrayElemAt: [{ $filter: { input: '$slices', cond: isOwn } }, 0] },
  };

  return async function reserveCredits(userId, wanted, turn) {
    const free = { $subtract: ['$balance', { $sum: '$$others.amount' }] };
    const amount = { $max: [0, { $min: [wanted, free] }] };
    const anew = { holder: { $literal: holder }, amount, until: { $add: ['$$NOW', lease] }, turn };
    const latest = { $cond: [{ $gt: ['$$own.turn', turn] }, '$$own', anew] };
    const update = [{ $set: { slices: { $let: { vars, in: { $concatArrays: ['$$others', [latest]] } } } } }];
    const options = { returnDocument: 'after', projection: { slices: 1, balance: 1 } } as const;
    const after = await readConfirmed(userId, () => collection.findOneAndUpdate({ _id: userId }, update, options));
    if (!after) return null;
    const { slices, balance } = after;
    return { amount: slices.find((reservation) => reservation.holder === holder)?.amount ?? 0, balance };
  };
}
