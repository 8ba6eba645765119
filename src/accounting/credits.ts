import type { ClientSession } from 'mongoose';
import { checkStorableId, checkUserId, newId } from '../ids.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { accountRows } from '../options/accounts.ts';
import type { CreditOptions } from '../options/options.ts';
import { type AdmitByCredits, type CreditObserver, createCreditAdmission } from './credit-admission.ts';
import { type Booking, Ledger, type LedgerDeps } from './ledger.ts';
import type { UsageDocument } from './model.ts';
import { type Charged, costOf, type Prices, toCredits, toMicro } from './price.ts';
import { Reservations } from './reservations.ts';
import type { WriteAccount } from './write-account.ts';

export interface CreditServiceDeps extends Omit<LedgerDeps, 'lowThreshold' | 'initial'> {
  readonly writeAccount: WriteAccount;
  /** While it is unavailable, nothing can be reserved. @default it is always available */
  readonly database?: Pick<DatabaseAccess, 'whenAvailable'>;
  readonly options: CreditOptions;
  /** @default none */
  readonly observer?: CreditObserver;
}

/** Credits given to an account. */
export interface TopUp {
  readonly userId: string;
  /** More than 0, in whole millionths. */
  readonly credits: number;
  /** Identifies the top-up, in at most 256 characters. A reference that was used before adds nothing. */
  readonly reference: string;
}

/** What an account has. */
export interface CreditBalance {
  /** Less than 0 if the account has spent more than it had. */
  readonly creditsRemaining: number;
  /** Below it, `credits.low` is published. */
  readonly lowThreshold: number;
}

/** The part of a usage record that decides what it costs, and whom. */
type ChargedRecord = Charged & Pick<UsageDocument, '_id' | 'userId' | 'holder'>;

/** What the records cost, as entries of the ledger, by account. */
function toDebits(records: readonly ChargedRecord[], prices: Prices): Map<string, Booking[]> {
  const byUser = new Map<string, Booking[]>();
  for (const record of records) {
    const { _id, userId, holder } = record;
    const entries = byUser.get(userId) ?? [];
    entries.push({ _id, userId, kind: 'usage', amount: 0 - costOf(prices, record), holder });
    byUser.set(userId, entries);
  }
  return byUser;
}

/** Prepaid credits: the ledger, what calls cost, and which accounts may still call. */
export class CreditService {
  readonly admit: AdmitByCredits;
  readonly #prices: Prices;
  readonly #lowThreshold: number;
  readonly #writeAccount: WriteAccount;
  readonly #ledger: Ledger;
  readonly #reservations: Reservations;

  constructor({ accounts, ledger, publish, writeAccount, database, options, observer, logger }: CreditServiceDeps) {
    const amount = (name: 'lowThreshold' | 'initialBalance' | 'overdraft') =>
      toMicro(name, options[name] ?? accountRows[`credits.${name}`].default);
    const [initial, overdraft] = [amount('initialBalance'), amount('overdraft')];
    this.#prices = options;
    this.#lowThreshold = amount('lowThreshold');
    this.#writeAccount = writeAccount;
    this.#ledger = new Ledger({ accounts, ledger, publish, lowThreshold: this.#lowThreshold, initial, logger });
    this.#reservations = new Reservations({
      ...{ accounts, overdraft, logger },
      process: newId('wrk', Date.now()),
      charged: (usageIds) => this.#ledger.booked(usageIds),
      open: async (userId) => {
        if (initial + overdraft === 0) return false;
        await writeAccount(userId, (session) => this.#ledger.open(userId, session));
        return true;
      },
    });
    const admitted = { reservations: this.#reservations, ledger: this.#ledger };
    this.admit = createCreditAdmission({ ...admitted, options, overdraft, database, observer });
  }

  /** A record of this process will be charged. @returns who holds what it costs until then, which is stored with the record */
  recorded(record: Charged & Pick<UsageDocument, 'userId'>): string | undefined {
    return this.#reservations.spent(record.userId, costOf(this.#prices, record));
  }

  /** A record of this process is lost, and will never be charged. */
  lost(record: ChargedRecord): void {
    this.#reservations.lost(record.userId, costOf(this.#prices, record), record.holder);
  }

  /** Charges for usage records, each once, in the transaction that counts them; skips a record that is charged already. */
  async charge(records: readonly ChargedRecord[], session: ClientSession | undefined): Promise<void> {
    const debits = toDebits(records, this.#prices);
    await this.#ledger.lock([...debits.keys()], session);
    await this.#ledger.book(debits, session);
  }

  /** The same for records that are not charged yet, which is cheaper. Rejects with code 11000 if one is. */
  async chargeNew(records: readonly ChargedRecord[], session: ClientSession): Promise<void> {
    const debits = toDebits(records, this.#prices);
    await this.#ledger.lock([...debits.keys()], session);
    await this.#ledger.bookNew(debits, session);
  }

  /**
   * Lets no other transaction write the account's balance until this one ends. Must be its first step.
   * @throws GatewayError `invalid_value`
   */
  async lock(userId: string, session: ClientSession | undefined): Promise<void> {
    checkUserId(userId);
    await this.#ledger.lock([userId], session);
  }

  /** Adds what was paid for, in the transaction that records the payment. @throws GatewayError `invalid_value` */
  async credit(
    { userId, credits, paymentId }: Pick<TopUp, 'userId' | 'credits'> & { readonly paymentId: string },
    session: ClientSession | undefined,
  ): Promise<void> {
    const amount = toMicro('credits', credits);
    await this.#ledger.add({ _id: `payment:${paymentId}`, userId, kind: 'payment', amount }, session);
  }

  /**
   * Adds credits to an account, once for each reference.
   * @throws GatewayError `invalid_value`; `idempotency_conflict` if the reference was used for another amount
   */
  async topUp({ userId, credits, reference }: TopUp): Promise<CreditBalance> {
    checkUserId(userId);
    checkStorableId('reference', reference);
    const amount = toMicro('credits', credits);
    const _id = `top_up:${JSON.stringify([userId, reference])}`;
    await this.#writeAccount(userId, async (session) => {
      await this.#ledger.lock([userId], session);
      await this.#ledger.add({ _id, userId, kind: 'top_up', amount }, session);
    });
    return this.balance(userId);
  }

  /** @throws GatewayError `invalid_value` */
  async balance(userId: string): Promise<CreditBalance> {
    checkUserId(userId);
    const creditsRemaining = toCredits(await this.#ledger.balance(userId));
    return { creditsRemaining, lowThreshold: toCredits(this.#lowThreshold) };
  }

  /** The credits that are left to each of these accounts. */
  async balances(userIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return new Map([...(await this.#ledger.balances(userIds))].map(([userId, micro]) => [userId, toCredits(micro)]));
  }

  close(): ReturnType<Reservations['close']> {
    return this.#reservations.close();
  }
}
