import { withTimeout } from '../../mongo/periodic.ts';
import { isUnavailable } from '../../mongo/unavailable.ts';
import type { Logger } from '../../options/options.ts';
import type { AllowanceLease } from './allowance-lease.ts';
import { CreditAllowance } from './credit-allowance.ts';
import type { Ledger } from './ledger.ts';

export interface LeasedAllowanceDeps {
  readonly ledger: Pick<Ledger, 'booked'>;
  /** Leases this many micro-credits of a balance, or as many as there are. */
  readonly renewLease: (userId: string, requestedAmount: number) => Promise<AllowanceLease>;
  /** What each lease asks for, where no more is reserved. Micro-credits. */
  readonly leaseAmount: number;
  /** How often each process renews its leases. Milliseconds. */
  readonly interval: number;
  /** Milliseconds. */
  readonly leaseDuration: number;
  readonly logger: Logger;
}

/** Logs that renewals fail: once until one succeeds again, whichever account it is of. */
export interface LeaseRenewalLog {
  succeeded(): void;
  failed(error: unknown): void;
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
export class LeasedAllowance {
  readonly allowance = new CreditAllowance();
  readonly #userId: string;
  readonly #deps: LeasedAllowanceDeps;
  readonly #log: LeaseRenewalLog;
  /** Ended calls that will not be charged again, and are still part of what is reserved. */
  readonly #settled = new Set<string>();
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

  constructor(userId: string, deps: LeasedAllowanceDeps, log: LeaseRenewalLog) {
    this.#userId = userId;
    this.#deps = deps;
    this.#log = log;
  }

  /** Whether the leased amount may still be spent, and its account may have something left. */
  get isCurrent(): boolean {
    const now = performance.now();
    return now < this.#expiresAt && !(this.allowance.isEmpty && now - this.#renewedAt >= this.#deps.interval);
  }

  /** Whether the database is late in leasing more. */
  get isOverdue(): boolean {
    return this.#hasFailed || (this.#renewal !== undefined && performance.now() - this.#startedAt > overdueAfter);
  }

  /** Whether calls are under way, or are likely to come. */
  get isInUse(): boolean {
    return this.allowance.reserved > 0 || performance.now() - this.#touchedAt < 2 * this.#deps.interval;
  }

  get isIdle(): boolean {
    return performance.now() - Math.max(this.#touchedAt, this.#startedAt) > idleTime;
  }

  /** Releases what is reserved for an ended call at the next renewal. */
  settle(id: string): void {
    if (this.allowance.isUnbooked(id)) this.#settled.add(id);
  }

  /** Starts a renewal as soon as the gap since the last one allows. */
  renewSoon(): void {
    this.#touchedAt = performance.now();
    const wait = this.#startedAt + Math.min(shortestGap, this.#deps.interval) - this.#touchedAt;
    if (wait <= 0) void this.tryRenew();
    else this.#timer ??= setTimeout(tryRenewOf, wait, this).unref();
  }

  /** Cancels the scheduled renewal. */
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
    renewal.then(
      () => {
        this.#hasFailed = false;
        this.#log.succeeded();
      },
      (error) => {
        this.#hasFailed = isUnavailable(error);
        this.#log.failed(error);
      },
    );
    return renewal;
  }

  async #renewNow(): Promise<void> {
    const { allowance } = this;
    const { ledger, renewLease, leaseAmount, leaseDuration } = this.#deps;
    const startedAt = this.#startedAt;
    const settledIds = new Set(this.#settled);
    // the process that made a call mostly charges for it soon: read the ledger only for late calls, or when credits are scarce
    const ended = this.#isScarce ? allowance.unbooked : allowance.unbookedBefore(performance.now() - lateAfter);
    const unsettledIds = ended.filter((id) => !settledIds.has(id));
    // read the booked calls before the balance: so no call is missing from both
    const booked = [...settledIds, ...(unsettledIds.length > 0 ? await inTime(ledger.booked(unsettledIds)) : [])];
    const reserved = allowance.reserved - allowance.unbookedCost(booked);
    const requestedAmount = reserved + Math.max(leaseAmount, reserved);
    allowance.lowerLimit(requestedAmount, booked);
    const lease = await inTime(renewLease(this.#userId, requestedAmount));
    const isScarce = lease.amount < requestedAmount;
    // when credits are scarce, do not count a charge both in the balance and as unbooked
    const later = isScarce ? await inTime(ledger.booked(allowance.unbooked)) : [];
    allowance.applyLease(lease, booked, later);
    for (const id of settledIds) this.#settled.delete(id);
    this.#isScarce = isScarce;
    this.#renewedAt = startedAt;
    this.#expiresAt = startedAt + leaseDuration;
  }
}

function tryRenewOf(account: LeasedAllowance): void {
  void account.tryRenew();
}
