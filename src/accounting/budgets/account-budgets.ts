import type { Budget } from '../../options/budgets.ts';
import type { Logger } from '../../options/options.ts';
import { createReadCache } from './read-cache.ts';

/** Reads the budgets of an account: at once, if they are known. */
export type ReadAccountBudgets = (userId: string) => readonly Budget[] | Promise<readonly Budget[]>;

/**
 * Reads the budgets of accounts whose callers a host authenticates, at most about a second late. A call waits for that only if
 * its account has had budgets; for any other account it is read beside the call.
 */
export function createReadAccountBudgets(
  read: (userId: string) => Promise<readonly Budget[]>,
  logger: Logger,
): ReadAccountBudgets {
  const cache = createReadCache<readonly Budget[]>(logger);
  return (userId) => {
    const fresh = cache.fresh(userId);
    if (fresh) return fresh;
    const reading = cache.read(userId, () => read(userId)).then((budgets = []) => budgets);
    return cache.stale(userId)?.length ? reading : [];
  };
}
