import type { ClientSession } from 'mongoose';
import { GatewayError } from '../errors.ts';
import type { EventInput } from '../events/publication.ts';
import type { PublishOptions } from '../events/service.ts';
import { checkUserId, newId } from '../ids.ts';
import type { CreditOptions, Logger, ModelCall, UsageRecord } from '../options.ts';
import { createLedger } from './ledger.ts';
import type { AccountModel, LedgerModel } from './model.ts';
import { type Charged, costOf, toCredits, toMicro } from './price.ts';
import { createPurses } from './purses.ts';
import { createSetAside } from './slices.ts';

export interface CreditServiceDeps {
  readonly accounts: AccountModel;
  readonly ledger: LedgerModel;
  readonly publish: (event: EventInput, options: PublishOptions) => Promise<unknown>;
  /** Runs what it is given as one transaction. */
  readonly transaction: <T>(fn: (session: ClientSession | undefined) => Promise<T>) => Promise<T>;
  readonly options: CreditOptions;
  readonly logger: Logger;
}

/** Credits given to an account. */
export interface TopUp {
  readonly userId: string;
  /** More than 0; to a millionth. */
  readonly credits: number;
  /** What they are for, 200 characters at most. The same one again gives nothing. */
  readonly reference: string;
}

/** What an account has. */
export interface CreditBalance {
  /** Less than 0 where more was spent than there was. */
  readonly creditsRemaining: number;
  /** Below it, `credits.low` is published. */
  readonly lowThreshold: number;
}

/** A call that was let through. */
interface Hold {
  closed(record: UsageRecord): void;
  dropped(): void;
}

/** What usage records are charged by. */
type ChargedRecord = Charged & { readonly _id: string; readonly userId: string };

export interface CreditService {
  init(): Promise<void>;
  /**
   * Holds what a call is likely to cost; never waits.
   * @throws GatewayError `insufficient_credits`
   */
  admit(call: ModelCall, estimatedTokens: number): Hold;
  /** Charges for usage records, each once, in the transaction that they are counted in. */
  charge(records: readonly ChargedRecord[], session: ClientSession | undefined): Promise<void>;
  /** Gives credits inside a transaction. @throws GatewayError `invalid_value` */
  credit(topUp: TopUp, session: ClientSession | undefined): Promise<void>;
  /**
   * Gives credits to an account, once for each reference.
   * @throws GatewayError `invalid_value`
   */
  topUp(topUp: TopUp): Promise<CreditBalance>;
  /** @throws GatewayError `invalid_value` */
  balance(userId: string): Promise<CreditBalance>;
  close(): Promise<void>;
}

function insufficient(): GatewayError {
  return new GatewayError('insufficient_credits', 'This account has no credits left; add some and call again', {
    headers: { 'x-should-retry': 'false' },
  });
}

function checkReference(reference: unknown): void {
  const storable = typeof reference === 'string' && !/[\0\p{Surrogate}]/u.test(reference);
  if (storable && reference !== '' && reference.length <= 200) return;
  throw new GatewayError('invalid_value', 'reference: must be a string of 1 to 200 characters', { param: 'reference' });
}

/** Prepaid credits: a ledger, what calls cost, and who may still call. */
export function createCreditService(deps: CreditServiceDeps): CreditService {
  const { accounts, options, logger } = deps;
  const { prices, expectedOutputTokens = 1_000, agreeInterval: interval = 500 } = options;
  const lowThreshold = toMicro('lowThreshold', options.lowThreshold ?? 0);
  const ledger = createLedger({ accounts, ledger: deps.ledger, publish: deps.publish, lowThreshold, logger });
  // what a process that died has set aside is free again when its lease has ended
  const setAside = createSetAside(accounts, newId('wrk', Date.now()), 5 * interval);
  const purses = createPurses({ ledger, setAside, slice: toMicro('slice', options.slice ?? 10), interval, logger });

  async function credit({ userId, credits, reference }: TopUp, session: ClientSession | undefined): Promise<void> {
    checkUserId(userId);
    checkReference(reference);
    const amount = toMicro('credits', credits);
    await ledger.book(userId, [{ _id: `top_up:${reference}`, userId, kind: 'top_up', amount }], session);
  }

  async function balance(userId: string): Promise<CreditBalance> {
    checkUserId(userId);
    return { creditsRemaining: toCredits(await ledger.balance(userId)), lowThreshold: toCredits(lowThreshold) };
  }

  return {
    async init() {
      await Promise.all([accounts.createCollection(), deps.ledger.createIndexes()]);
    },

    admit({ principal: { userId }, model, endpoint }, inputTokens) {
      const images = endpoint.startsWith('/images') ? 1 : 0;
      const outputTokens = endpoint === '/embeddings' || images > 0 ? 0 : expectedOutputTokens;
      const estimate = costOf(prices, { model, inputTokens, outputTokens, images });
      const purse = purses.of(userId);
      // what costs nothing needs no credits
      const held = estimate === 0 || purse.hold(estimate);
      if (!held || purse.isRunningLow) purses.touch(userId);
      if (!held) throw insufficient();
      return {
        closed(record) {
          purse.spend(estimate, record.id, costOf(prices, record));
          purses.touch(userId);
        },
        dropped: () => purse.release(estimate),
      };
    },

    async charge(records, session) {
      const byUser = new Map<string, ChargedRecord[]>();
      for (const record of records) byUser.set(record.userId, [...(byUser.get(record.userId) ?? []), record]);
      for (const [userId, own] of byUser) {
        const entries = own.map((record) => ({
          _id: record._id,
          userId,
          kind: 'usage' as const,
          amount: 0 - costOf(prices, record),
        }));
        await ledger.book(userId, entries, session);
      }
    },

    credit,

    async topUp(topUp) {
      await deps.transaction((session) => credit(topUp, session));
      await purses.refresh(topUp.userId);
      return balance(topUp.userId);
    },

    balance,
    close: purses.close,
  };
}
