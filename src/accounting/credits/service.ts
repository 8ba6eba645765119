import type { ClientSession } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import type { EventInput, PublishOptions } from '../../events/publication.ts';
import { checkUserId, newId } from '../../ids.ts';
import type { DatabaseAccess } from '../../mongo/connection/availability.ts';
import type { RunInTransaction } from '../../mongo/transaction.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import type { CreditOptions, Logger, UsageRecord } from '../../options/options.ts';
import type { InTurn } from '../writer-turns.ts';
import { type AdmitByCredits, createCreditAdmission } from './admission.ts';
import { createAllowances } from './allowances.ts';
import { createLedger, type Entry } from './ledger.ts';
import type { AccountModel, LedgerModel } from './model.ts';
import { type Charged, costOf, toCredits, toMicro } from './price.ts';
import { createReserveCredits, type ReservedCredits } from './reservations.ts';

export interface CreditServiceDeps {
  readonly accounts: AccountModel;
  readonly ledger: LedgerModel;
  readonly publish: (event: EventInput, options: PublishOptions) => Promise<unknown>;
  readonly transaction: RunInTransaction;
  readonly inTurn?: InTurn;
  /** While it is unavailable nothing can be reserved. @default it is always available */
  readonly database?: Pick<DatabaseAccess, 'isUnavailable'>;
  readonly options: CreditOptions;
  readonly logger: Logger;
}

/** Credits given to an account. */
export interface TopUp {
  readonly userId: string;
  /** More than 0; to a millionth. */
  readonly credits: number;
  /** Names the top-up: 256 characters at most. A reference that was used before gives the account nothing. */
  readonly reference: string;
}

/** What an account has. */
export interface CreditBalance {
  /** Less than 0 where the account has spent more than it had. */
  readonly creditsRemaining: number;
  /** Below it, `credits.low` is published. */
  readonly lowThreshold: number;
}

/** Credits that were paid for. */
export interface PaidCredits {
  readonly userId: string;
  readonly credits: number;
  readonly paymentId: string;
}

/** What usage records are charged by. */
type ChargedRecord = Charged & { readonly _id: string; readonly userId: string };

export interface CreditService {
  init(): Promise<void>;
  readonly admit: AdmitByCredits;
  /** Credits were given to the account, and that is committed: they can be spent here when this resolves. */
  credited(userId: string): Promise<void>;
  /** Charges for usage records, each once, in the transaction that they are counted in. */
  charge(records: readonly ChargedRecord[], session: ClientSession | undefined): Promise<void>;
  /** The same for records that have not been charged, which is cheaper. Rejects with code 11000 where one has. */
  chargeNew(records: readonly ChargedRecord[], session: ClientSession): Promise<void>;
  /** Records have been charged, and that is committed. */
  charged(records: readonly ChargedRecord[]): void;
  /** A record is lost: nobody will charge for it, so its reservation is released. */
  lost(record: Pick<UsageRecord, 'id' | 'userId'>): void;
  /** Lets no other transaction write the account's balance until this one ends. Must be its first step. @throws GatewayError `invalid_value` */
  reserve(userId: string, session: ClientSession | undefined): Promise<void>;
  /** Gives what was paid for, in the transaction that the payment is recorded in. @throws GatewayError `invalid_value` */
  credit(paid: PaidCredits, session: ClientSession | undefined): Promise<void>;
  /**
   * Gives credits to an account, once for each reference.
   * @throws GatewayError `invalid_value`; `idempotency_conflict` when the reference was used for another amount
   */
  topUp(topUp: TopUp): Promise<CreditBalance>;
  /** @throws GatewayError `invalid_value` */
  balance(userId: string): Promise<CreditBalance>;
  close(): Promise<void>;
}

const nothing: ReservedCredits = { amount: 0, balance: 0 };
function checkReference(reference: unknown): void {
  const storable = typeof reference === 'string' && !/[\0\p{Surrogate}]/u.test(reference);
  if (storable && reference !== '' && reference.length <= 256) return;
  throw new GatewayError('invalid_value', 'reference: must be a string of 1 to 256 characters', { param: 'reference' });
}

/** Prepaid credits: the ledger, what calls cost, and which accounts may still call. */
export function createCreditService(deps: CreditServiceDeps): CreditService {
  const { accounts, database, options, logger, inTurn = (_userId, work) => work() } = deps;
  const { prices, agreeInterval: interval = 500 } = options;
  const lowThreshold = toMicro('lowThreshold', options.lowThreshold ?? 0);
  const initial = toMicro('initialBalance', options.initialBalance ?? 0);
  const ledger = createLedger({ accounts, ledger: deps.ledger, publish: deps.publish, lowThreshold, initial, logger });
  // what a dead process has reserved is free when its lease has ended: by then what it spent has been charged, even if it
  // died while charging (transactions of dead processes are ended after 5 s)
  const lease = Math.max(5 * interval, 10_000);
  const reserveCredits = createReserveCredits(accounts, newId('wrk', Date.now()), lease);
  let turns = 0;
  const slice = toMicro('slice', options.slice ?? 10);
  const allowances = createAllowances({ ledger, reserve: reserveBalance, slice, interval, lease, logger });

  /** Writes in a transaction; retries when another one inserted the same document at the same moment. */
  async function runInTransaction(userId: string, write: (session: ClientSession | undefined) => Promise<void>) {
    for (let left = 3; ; left -= 1) {
      try {
        return await inTurn(userId, (within) => deps.transaction(write, within));
      } catch (error) {
        if (!isDuplicateKey(error) || left === 0) throw error;
      }
    }
  }

  /** Opens a new account first, if accounts begin with credits. */
  async function reserveBalance(userId: string, wanted: number): Promise<ReservedCredits> {
    turns += 1;
    const turn = turns;
    const known = await reserveCredits(userId, wanted, turn);
    if (known !== null || initial === 0) return known ?? nothing;
    await runInTransaction(userId, (session) => ledger.book(new Map([[userId, []]]), session));
    return (await reserveCredits(userId, wanted, turn)) ?? nothing;
  }

  async function balance(userId: string): Promise<CreditBalance> {
    checkUserId(userId);
    return { creditsRemaining: toCredits(await ledger.balance(userId)), lowThreshold: toCredits(lowThreshold) };
  }

  function debits(records: readonly ChargedRecord[]): Map<string, Entry[]> {
    const byUser = new Map<string, Entry[]>();
    for (const record of records) {
      const { _id, userId } = record;
      const entries = byUser.get(userId) ?? [];
      entries.push({ _id, userId, kind: 'usage', amount: 0 - costOf(prices, record) });
      byUser.set(userId, entries);
    }
    return byUser;
  }

  return {
    async init() {
      await Promise.all([accounts.createCollection(), deps.ledger.createIndexes()]);
    },

    admit: createCreditAdmission({ allowances, ...(database && { database }), options }),
    credited: allowances.refresh,

    async charge(records, session) {
      const accounts = debits(records);
      await ledger.reserve([...accounts.keys()], session);
      await ledger.book(accounts, session);
    },

    async chargeNew(records, session) {
      const accounts = debits(records);
      await ledger.reserve([...accounts.keys()], session);
      await ledger.bookNew(accounts, session);
    },

    charged: allowances.booked,
    lost: ({ id, userId }) => allowances.booked([{ _id: id, userId }]),

    async reserve(userId, session) {
      checkUserId(userId);
      await ledger.reserve([userId], session);
    },

    async credit({ userId, credits, paymentId }, session) {
      checkUserId(userId);
      const amount = toMicro('credits', credits);
      await ledger.add({ _id: `payment:${paymentId}`, userId, kind: 'payment', amount }, session);
    },

    async topUp({ userId, credits, reference }) {
      checkUserId(userId);
      checkReference(reference);
      const amount = toMicro('credits', credits);
      const _id = `top_up:${JSON.stringify([userId, reference])}`;
      await runInTransaction(userId, async (session) => {
        await ledger.reserve([userId], session);
        await ledger.add({ _id, userId, kind: 'top_up', amount }, session);
      });
      await allowances.refresh(userId);
      return balance(userId);
    },

    balance,
    close: allowances.close,
  };
}
