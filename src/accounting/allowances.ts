import { durableCollection } from '../mongo/collection.ts';
import { createReadConfirmed } from '../mongo/confirmed-reads.ts';
import { createPeriodic, type Periodic, withTimeout } from '../mongo/periodic.ts';
import { isUnavailable } from '../mongo/unavailable.ts';
import type { Logger } from '../options/options.ts';
import { type AllowanceLease, CreditAllowance } from './credit-allowance.ts';
import type { Ledger } from './ledger.ts';
import type { AccountDocument, AccountModel } from './model.ts';

export interface AllowanceDeps {
  readonly ledger: Pick<Ledger, 'booked'>;
  /** Leases this many micro-credits of a balance, or as many as there are. */
  readonly renewLease: (userId: string, requestedAmount: number) => Promise<AllowanceLease>;
  /** What each lease asks for, where no more is reserved. Micro-credits. */
  readonly leaseAmount: number;
  /** How often each process looks which of its leases are to be renewed. Milliseconds. */
  readonly interval: number;
  /** Milliseconds. */
  readonly leaseDuration: number;
  readonly logger: Logger;
}

/**
 * The allowances of the accounts that make calls in this process. Without them, each call would reserve its cost by a conditional `$inc`
 * of the balance, and settle it by another: one takes 64 µs of CPU here (56 to 87), more than a quarter of a relayed call with
 * accounting, and as much again of mongod.
 */
export class Allowances {
  readonly #deps: AllowanceDeps;
  readonly #accounts = new Map<string, LeasedAllowance>();
  readonly #renewals: Periodic;
  #isClosed = false;
  /** Whether a renewal has failed, of whichever account, and none has succeeded since. */
  #isFailing = false;

  constructor(deps: AllowanceDeps) {
    this.#deps = deps;
    this.#renewals = createPeriodic({
      name: 'renewing what is reserved of balances',
      task: () => this.#renewUsed(),
      interval: deps.interval,
      initialDelay: deps.interval,
      logger: deps.logger,
    });
  }

  of(userId: string): CreditAllowance {
    return this.#of(userId).allowance;
  }

  /**
   * Resolves when the account's lease is renewed; `undefined` if it is current, so that a call need not wait. A call
   * waits if its account is new here, if its lease has expired, and once per interval while it has nothing left.
   * Rejects if the database is unavailable and this process knows of nothing that the account has left.
   */
  ensureCurrent(userId: string): Promise<void> | undefined {
    const account = this.#of(userId);
    return this.#isClosed || account.isCurrent ? undefined : account.renew();
  }

  /** Whether the database is late in leasing more. */
  isOverdue(userId: string): boolean {
    return this.#accounts.get(userId)?.isOverdue ?? false;
  }

  /** Renews the lease soon; no call waits for it. */
  renewSoon(userId: string): void {
    if (!this.#isClosed) this.#of(userId).renewSoon();
  }

  /**
   * Releases what is reserved for these ended calls at the next renewal: either this process has charged for them, so every balance read from
   * now on includes them, or no process will charge for them.
   */
  settle(calls: readonly { readonly _id: string; readonly userId: string }[]): void {
    for (const { _id, userId } of calls) this.#accounts.get(userId)?.allowance.settle(_id);
  }

  /** Renews the lease now, if this process has one. */
  async refresh(userId: string): Promise<void> {
    await this.#accounts.get(userId)?.refresh();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const account of this.#accounts.values()) account.cancel();
    await this.#renewals.stop();
    await Promise.all([...this.#accounts.values()].map((account) => account.giveBack()));
  }

  #of(userId: string): LeasedAllowance {
    const present = this.#accounts.get(userId);
    if (present) return present;
    const account = new LeasedAllowance(userId, this.#deps, (error) => this.#renewed(error));
    this.#accounts.set(userId, account);
    if (!this.#isClosed) this.#renewals.start();
    return account;
  }

  #renewUsed(): void {
    for (const [userId, account] of this.#accounts) {
      if (account.isInUse) {
        if (account.isDue) void account.tryRenew();
      } else if (account.isIdle) this.#accounts.delete(userId);
    }
  }

  /** Logs that renewals fail, once until one succeeds again. @param error `undefined` if it succeeded */
  #renewed(error: unknown): void {
    const reason = String(error);
    if (error !== undefined && !this.#isFailing) {
      this.#deps.logger.warn('what is reserved of balances cannot be renewed', { reason });
    }
    this.#isFailing = error !== undefined;
  }
}

/**
 * The shortest time between two renewals of one account's lease. Each renewal writes the balance, and a transaction that
 * charges the account succeeds only between two such writes. Milliseconds.
 */
const shortestGap = 50;
/** A process charges for each of its calls within this time after the call has ended. Milliseconds. */
const lateAfter = 2_000;
/** How long an unused allowance stays in memory. Milliseconds. */
const idleTime = 600_000;
/** The longest that a call waits for a renewal. Milliseconds. */
const longestRenewalWait = 2_000;
/** The longest that each step of a renewal waits for the database. Milliseconds. */
const longestStep = 2_000;
/** A renewal that takes longer means that the database is in trouble. Milliseconds. */
const overdueAfter = 1_000;

const inTime = <T>(answer: Promise<T>) => withTimeout(answer, longestStep);

/** One account's allowance in this process, and the lease in the database that it comes from. */
class LeasedAllowance {
  readonly allowance = new CreditAllowance();
  readonly #userId: string;
  readonly #deps: AllowanceDeps;
  readonly #onRenewed: (error?: unknown) => void;
  /** Whether the last renewal leased less than was requested. */
  #isScarce = false;
  #touchedAt = performance.now();
  /** When the last renewal started. */
  #startedAt = Number.NEGATIVE_INFINITY;
  /** When the last renewal that succeeded started. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** Until when the leased amount may be spent. */
  #expiresAt = Number.NEGATIVE_INFINITY;
  #renewal: Promise<void> | undefined;
  /** Whether the database did not answer the last renewal. */
  #hasFailed = false;
  /** Starts the next renewal. */
  #timer: NodeJS.Timeout | undefined;

  /** @param onRenewed called after each renewal, with its error if it failed */
  constructor(userId: string, deps: AllowanceDeps, onRenewed: (error?: unknown) => void) {
    this.#userId = userId;
    this.#deps = deps;
    this.#onRenewed = onRenewed;
  }

  /** Whether the leased amount may still be spent, and its account may have something left. */
  get isCurrent(): boolean {
    const now = performance.now();
    return now < this.#expiresAt && !(this.allowance.isEmpty && now - this.#renewedAt >= this.#deps.interval);
  }

  get isOverdue(): boolean {
    return this.#hasFailed || (this.#renewal !== undefined && performance.now() - this.#startedAt > overdueAfter);
  }

  /** Whether calls are under way, or are likely to come. */
  get isInUse(): boolean {
    return this.allowance.reserved > 0 || performance.now() - this.#touchedAt < 2 * this.#deps.interval;
  }

  /**
   * Whether it is time for a renewal. While calls are under way and enough is left, the lease only has to be extended before it ends:
   * renewed at every interval, ten calls a second take 1.13 times the CPU of the process and its database together (1.10 to 1.14 in
   * three pairs of two). What it holds of a burst that has been charged, other processes can spend.
   */
  get isDue(): boolean {
    const { allowance } = this;
    const reserved = allowance.reserved - allowance.unbookedCost(allowance.settled);
    const isAtRest = reserved === 0;
    const holdsTooMuch = allowance.limit > this.#amountFor(reserved) + this.#deps.leaseAmount;
    const isUnrenewed = this.#startedAt > this.#renewedAt;
    const isHalfOver = performance.now() - this.#renewedAt > this.#deps.leaseDuration / 2;
    return this.#isScarce || isUnrenewed || allowance.isRunningLow || isAtRest || holdsTooMuch || isHalfOver;
  }

  get isIdle(): boolean {
    return performance.now() - Math.max(this.#touchedAt, this.#startedAt) > idleTime;
  }

  /** Starts a renewal as soon as the gap since the last one allows. */
  renewSoon(): void {
    this.#touchedAt = performance.now();
    const wait = this.#startedAt + Math.min(shortestGap, this.#deps.interval) - this.#touchedAt;
    if (wait <= 0) void this.tryRenew();
    else this.#timer ??= setTimeout(() => void this.tryRenew(), wait).unref();
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Renews the lease, or waits for the renewal under way. Never rejects: a failure is logged. */
  async tryRenew(): Promise<void> {
    await this.#start().catch(() => {});
  }

  /** The same, but rejects if there is no renewal in time and this process knows of nothing that the account has left. */
  async renew(): Promise<void> {
    try {
      await withTimeout(this.#start(), longestRenewalWait);
    } catch (error) {
      // while the database is unavailable, this process keeps what is left of its lease
      if (this.allowance.isEmpty) throw error;
      this.#expiresAt = performance.now() + this.#deps.leaseDuration;
    }
  }

  /** Renews the lease once more, after the renewal under way. */
  async refresh(): Promise<void> {
    await this.#renewal?.catch(() => {});
    await this.tryRenew();
  }

  /** Releases what this process will not spend, so that the other processes can have it at once. */
  async giveBack(): Promise<void> {
    this.cancel();
    await this.#renewal?.catch(() => {});
    const { renewLease, logger } = this.#deps;
    await inTime(renewLease(this.#userId, this.allowance.reserved)).catch((error) =>
      logger.warn('what was reserved of a balance stays reserved until its lease ends', { reason: String(error) }),
    );
  }

  #start(): Promise<void> {
    this.cancel();
    if (this.#renewal) return this.#renewal;
    this.#startedAt = performance.now();
    const renewal = this.#renewNow().finally(() => {
      this.#renewal = undefined;
    });
    this.#renewal = renewal;
    const ended = (error?: unknown) => {
      this.#hasFailed = error !== undefined && isUnavailable(error);
      this.#onRenewed(error);
    };
    renewal.then(() => ended(), ended);
    return renewal;
  }

  /** What a lease asks for while so much is reserved. */
  #amountFor(reserved: number): number {
    return reserved + Math.max(this.#deps.leaseAmount, reserved);
  }

  async #renewNow(): Promise<void> {
    const { allowance } = this;
    const { ledger, renewLease, leaseDuration } = this.#deps;
    const startedAt = this.#startedAt;
    const settled = new Set(allowance.settled);
    // the process that made a call mostly charges for it soon: read the ledger only for late calls, or when credits are scarce
    const ended = this.#isScarce ? allowance.unbooked : allowance.unbookedBefore(performance.now() - lateAfter);
    const unsettledIds = ended.filter((id) => !settled.has(id));
    // read the booked calls before the balance: so no call is missing from both
    const booked = [...settled, ...(unsettledIds.length > 0 ? await inTime(ledger.booked(unsettledIds)) : [])];
    const reserved = allowance.reserved - allowance.unbookedCost(booked);
    const requestedAmount = this.#amountFor(reserved);
    allowance.lowerLimit(requestedAmount, booked);
    const lease = await inTime(renewLease(this.#userId, requestedAmount));
    const isScarce = lease.amount < requestedAmount;
    // when credits are scarce, do not count a charge both in the balance and as unbooked
    const later = isScarce ? await inTime(ledger.booked(allowance.unbooked)) : [];
    allowance.applyLease(lease, booked, later);
    this.#isScarce = isScarce;
    this.#renewedAt = startedAt;
    this.#expiresAt = startedAt + leaseDuration;
  }
}

/**
 * Makes the function that leases to one holder as much of a balance as it wants and no other holder has, until the lease ends.
 * @param duration how long a lease lasts unless it is renewed, in milliseconds by the database's clock
 */
export function createRenewAllowanceLease(accounts: AccountModel, holder: string, duration: number) {
  const collection = durableCollection(accounts);
  const readConfirmed = createReadConfirmed<AccountDocument>(collection);
  const isHolders = { $eq: ['$$this.holder', holder] };
  const isOthers = { $and: [{ $not: [isHolders] }, { $gt: ['$$this.until', '$$NOW'] }] };
  const vars = {
    others: { $filter: { input: '$leases', cond: isOthers } },
    present: { $arrayElemAt: [{ $filter: { input: '$leases', cond: isHolders } }, 0] },
  };

  /**
   * @param turn higher each time, so that a request that reaches the database after a newer one changes nothing
   * @returns what it has leased now; `null` if there is certainly no such account
   */
  return async function renewAllowanceLease(
    userId: string,
    requestedAmount: number,
    turn: number,
  ): Promise<AllowanceLease | null> {
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
