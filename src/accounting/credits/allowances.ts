import { createPeriodic } from '../../mongo/periodic.ts';
import type { Logger } from '../../options/options.ts';
import type { CreditAllowance } from './credit-allowance.ts';
import { LeasedAllowance, type LeasedAllowanceDeps, type LeaseRenewalLog } from './leased-allowance.ts';

/** The allowances of the accounts that make calls in this process. */
export interface Allowances {
  of(userId: string): CreditAllowance;
  /**
   * Resolves when the account's lease is renewed; `undefined` if it is current, so that a call need not wait. A call
   * waits if its account is new here, if its lease has expired, and once per interval while it has nothing left.
   * Rejects if the database is unavailable and this process knows of nothing that the account has left.
   */
  ensureCurrent(userId: string): Promise<void> | undefined;
  /** Whether the database is late in leasing more. */
  isOverdue(userId: string): boolean;
  /** Renews the lease soon; no call waits for it. */
  renewSoon(userId: string): void;
  /**
   * Releases what is reserved for these ended calls: either this process has charged for them, so every balance read from
   * now on includes them, or no process will charge for them.
   */
  settle(calls: readonly { readonly _id: string; readonly userId: string }[]): void;
  /** Renews the lease now, if this process has one. */
  refresh(userId: string): Promise<void>;
  close(): Promise<void>;
}

function createLeaseRenewalLog(logger: Logger): LeaseRenewalLog {
  let isFailing = false;
  return {
    succeeded() {
      isFailing = false;
    },
    failed(error) {
      if (!isFailing) logger.warn('what is reserved of balances cannot be renewed', { reason: String(error) });
      isFailing = true;
    },
  };
}

export function createAllowances(deps: LeasedAllowanceDeps): Allowances {
  const { interval, logger } = deps;
  const accounts = new Map<string, LeasedAllowance>();
  const log = createLeaseRenewalLog(logger);
  let isClosed = false;

  function tick(): void {
    for (const [userId, account] of accounts) {
      if (account.isInUse) void account.tryRenew();
      else if (account.isIdle) accounts.delete(userId);
    }
  }

  const ticks = createPeriodic({
    name: 'renewing what is reserved of balances',
    task: tick,
    interval,
    initialDelay: interval,
    logger,
  });

  function accountOf(userId: string): LeasedAllowance {
    const present = accounts.get(userId);
    if (present) return present;
    const account = new LeasedAllowance(userId, deps, log);
    accounts.set(userId, account);
    if (!isClosed) ticks.start();
    return account;
  }

  return {
    of: (userId) => accountOf(userId).allowance,
    ensureCurrent(userId) {
      const account = accountOf(userId);
      return isClosed || account.isCurrent ? undefined : account.renew();
    },
    isOverdue: (userId) => accounts.get(userId)?.isOverdue ?? false,
    renewSoon(userId) {
      if (!isClosed) accountOf(userId).renewSoon();
    },
    settle(calls) {
      for (const { _id, userId } of calls) accounts.get(userId)?.settle(_id);
    },
    async refresh(userId) {
      await accounts.get(userId)?.refresh();
    },
    async close() {
      isClosed = true;
      for (const account of accounts.values()) account.cancel();
      await ticks.stop();
      await Promise.all([...accounts.values()].map((account) => account.giveBack()));
    },
  };
}
