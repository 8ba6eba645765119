import type { ClientSession } from 'mongoose';
import { isDuplicateKey } from '../duplicate-key.ts';
import { GatewayError } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/publication.ts';
import { checkUserId, newId } from '../ids.ts';
import type { CreditOptions, Logger, ModelCall, UsageRecord } from '../options.ts';
import { createLedger, type Entry } from './ledger.ts';
import type { AccountModel, LedgerModel } from './model.ts';
import { type Charged, costOf, toCredits, toMicro } from './price.ts';
import { createPurses } from './purses.ts';
import { createSetAside, type SetAsideOf } from './slices.ts';

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
  /** What they are for, 256 characters at most. The same one again gives the same account nothing. */
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
  /**
   * Holds what a call is likely to cost; never waits.
   * @throws GatewayError `insufficient_credits`; `rate_limit_exceeded` where there are some that cannot be spent yet
   */
  admit(call: ModelCall, estimatedTokens: number): Hold;
  /** Charges for usage records, each once, in the transaction that they are counted in. */
  charge(records: readonly ChargedRecord[], session: ClientSession | undefined): Promise<void>;
  /** The same for records that have not been charged, which is cheaper. Rejects with code 11000 where one has. */
  chargeNew(records: readonly ChargedRecord[], session: ClientSession): Promise<void>;
  /** Records have been charged, and that is committed. */
  charged(records: readonly ChargedRecord[]): void;
  /** Lets nobody else write the account's balance until the transaction ends; to be done first in it. @throws GatewayError `invalid_value` */
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

const nothing: SetAsideOf = { amount: 0, balance: 0 };
/** Longer than it takes to agree on an account twice. Milliseconds. */
const retryAfter = 150;

function insufficient(): GatewayError {
  return new GatewayError('insufficient_credits', 'This account has no credits left; add some and call again', {
    headers: { 'x-should-retry': 'false' },
  });
}

/** The account has credits, but they are not set aside here yet: OpenAI's clients try again by themselves. */
function tooFast(): GatewayError {
  const message = 'This account spends faster than its credits can be set aside for it; try again in a moment';
  return new GatewayError('rate_limit_exceeded', message, {
    headers: { 'retry-after': '1', 'retry-after-ms': String(retryAfter), 'x-should-retry': 'true' },
  });
}

function checkReference(reference: unknown): void {
  const storable = typeof reference === 'string' && !/[\0\p{Surrogate}]/u.test(reference);
  if (storable && reference !== '' && reference.length <= 256) return;
  throw new GatewayError('invalid_value', 'reference: must be a string of 1 to 256 characters', { param: 'reference' });
}

/** Prepaid credits: a ledger, what calls cost, and who may still call. */
export function createCreditService(deps: CreditServiceDeps): CreditService {
  const { accounts, options, logger } = deps;
  const { prices, expectedOutputTokens = 1_000, agreeInterval: interval = 500 } = options;
  const lowThreshold = toMicro('lowThreshold', options.lowThreshold ?? 0);
  const initial = toMicro('initialBalance', options.initialBalance ?? 0);
  const ledger = createLedger({ accounts, ledger: deps.ledger, publish: deps.publish, lowThreshold, initial, logger });
  // what a process that died has set aside is free again when its lease has ended: by then what it spent has been charged,
  // even if it died in the midst of that (transactions of the dead are ended after 5 s)
  const setAsideOf = createSetAside(accounts, newId('wrk', Date.now()), Math.max(5 * interval, 10_000));
  const purses = createPurses({ ledger, setAside, slice: toMicro('slice', options.slice ?? 10), interval, logger });

  /** In a transaction of its own, again where somebody wrote the same for the first time at the same moment. */
  async function atomically(write: (session: ClientSession | undefined) => Promise<void>): Promise<void> {
    for (let left = 3; ; left -= 1) {
      try {
        return await deps.transaction(write);
      } catch (error) {
        if (!isDuplicateKey(error) || left === 0) throw error;
      }
    }
  }

  /** An account that is met for the first time is opened where it begins with something. */
  async function setAside(userId: string, wanted: number): Promise<SetAsideOf> {
    const known = await setAsideOf(userId, wanted);
    if (known !== null || initial === 0) return known ?? nothing;
    await atomically((session) => ledger.book(new Map([[userId, []]]), session));
    return (await setAsideOf(userId, wanted)) ?? nothing;
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

    admit({ principal: { userId }, model, endpoint }, inputTokens) {
      const images = endpoint.startsWith('/images') ? 1 : 0;
      const outputTokens = endpoint === '/embeddings' || images > 0 ? 0 : expectedOutputTokens;
      const estimate = costOf(prices, { model, inputTokens, cachedInputTokens: 0, outputTokens, images });
      const purse = purses.of(userId);
      // what costs nothing needs no credits
      const held = estimate === 0 || purse.hold(estimate);
      if (!held || purse.isRunningLow) purses.touch(userId);
      if (!held) throw purse.isEmpty ? insufficient() : tooFast();
      return {
        closed(record) {
          purse.spend(estimate, record.id, costOf(prices, record));
          if (purse.isRunningLow) purses.touch(userId);
        },
        dropped: () => purse.release(estimate),
      };
    },

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

    charged: purses.booked,

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
      await atomically(async (session) => {
        await ledger.reserve([userId], session);
        await ledger.add({ _id, userId, kind: 'top_up', amount }, session);
      });
      await purses.refresh(userId);
      return balance(userId);
    },

    balance,
    close: purses.close,
  };
}
