import type { Budget } from '../../budgets.ts';
import type { Logger } from '../../options/options.ts';
import { createRecent } from './recent.ts';

/** The budgets of an account, at once or after a read. */
export type BudgetsOf = (userId: string) => readonly Budget[] | Promise<readonly Budget[]>;

/**
 * Tells the budgets of accounts whose callers a host authenticates, at most about a second late. A call waits for that only if
 * its account has had budgets; for any other account it is read beside the call.
 */
export function createBudgetsOf(read: (userId: string) => Promise<readonly Budget[]>, logger: Logger): BudgetsOf {
  const recent = createRecent(read, logger);
  return (userId) => {
    const fresh = recent.peek(userId);
    if (fresh) return fresh;
    const reading = recent.read(userId).then((budgets = []) => budgets);
    return recent.last(userId)?.length ? reading : [];
  };
}
