import { newId } from '../../ids.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { createReadConfirmed } from '../../mongo/confirmed-reads.ts';
import type { WriteAccount } from '../writer-turns.ts';
import type { Ledger } from './ledger.ts';
import type { AccountDocument, AccountModel } from './model.ts';

/** What a holder has leased of a balance. Micro-credits. */
export interface AllowanceLease {
  readonly amount: number;
  /** The whole balance, including what other holders have leased. */
  readonly balance: number;
}

/**
 * Leases to one holder as much of a balance as it wants and no other holder has, until the lease ends.
 * @param turn higher each time, so that a request that reaches the database after a newer one changes nothing
 * @returns what it has leased now; `null` if there is certainly no such account
 */
export type RenewAllowanceLease = (
  userId: string,
  requestedAmount: number,
  turn: number,
) => Promise<AllowanceLease | null>;

/** @param duration how long a lease lasts unless it is renewed, in milliseconds by the database's clock */
export function createRenewAllowanceLease(
  accounts: AccountModel,
  holder: string,
  duration: number,
): RenewAllowanceLease {
  const collection = durableCollection(accounts);
  const readConfirmed = createReadConfirmed<AccountDocument>(collection);
  const isHolders = { $eq: ['$$this.holder', holder] };
  const isOthers = { $and: [{ $not: [isHolders] }, { $gt: ['$$this.until', '$$NOW'] }] };
  const vars = {
    others: { $filter: { input: '$leases', cond: isOthers } },
    present: { $arrayElemAt: [{ $filter: { input: '$leases', cond: isHolders } }, 0] },
  };

  return async function renewAllowanceLease(userId, requestedAmount, turn) {
    const free = { $subtract: ['$balance', { $sum: '$$others.amount' }] };
    const amount = { $max: [0, { $min: [requestedAmount, free] }] };
    const renewed = { holder: { $literal: holder }, amount, until: { $add: ['$$NOW', duration] }, turn };
    const latest = { $cond: [{ $gt: ['$$present.turn', turn] }, '$$present', renewed] };
    const update = [{ $set: { leases: { $let: { vars, in: { $concatArrays: ['$$others', [latest]] } } } } }];
    const options = { returnDocument: 'after', projection: { leases: 1, balance: 1 } } as const;
    const after = await readConfirmed(userId, () => collection.findOneAndUpdate({ _id: userId }, update, options));
    if (!after) return null;
    const { leases, balance } = after;
    return { amount: leases.find((lease) => lease.holder === holder)?.amount ?? 0, balance };
  };
}

export interface LeaseOrOpenDeps {
  readonly accounts: AccountModel;
  readonly ledger: Pick<Ledger, 'book'>;
  readonly writeAccount: WriteAccount;
  /** Whether accounts begin with credits. */
  readonly hasInitial: boolean;
  /** Milliseconds. */
  readonly leaseDuration: number;
}

const nothing: AllowanceLease = { amount: 0, balance: 0 };

/** Makes the function that renews this process's lease. It opens a new account first, if accounts begin with credits. */
export function createLeaseOrOpen({ accounts, ledger, writeAccount, hasInitial, leaseDuration }: LeaseOrOpenDeps) {
  const renewLease = createRenewAllowanceLease(accounts, newId('wrk', Date.now()), leaseDuration);
  let turns = 0;

  return async function leaseOrOpen(userId: string, requestedAmount: number): Promise<AllowanceLease> {
    turns += 1;
    const turn = turns;
    const lease = await renewLease(userId, requestedAmount, turn);
    if (lease !== null || !hasInitial) return lease ?? nothing;
    await writeAccount(userId, (session) => ledger.book(new Map([[userId, []]]), session));
    return (await renewLease(userId, requestedAmount, turn)) ?? nothing;
  };
}
