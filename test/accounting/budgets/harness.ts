import type { Connection } from 'mongoose';
import { createBudgetAdmission, createReadAccountBudgets } from '../../../src/accounting/budget-admission.ts';
import { createReadUsed } from '../../../src/accounting/budgets.ts';
import { createAccountingModels } from '../../../src/accounting/model.ts';
import type { Budget, Quota } from '../../../src/index.ts';
import { silentLogger } from '../../support/logger.ts';

interface Checked {
  /** Of every account. */
  readonly quota?: Quota | undefined;
  /** The budgets that are stored for accounts. */
  readonly accountBudgets?: ReturnType<typeof accountBudgetsFrom> | undefined;
  /** Whether the database can be read. @default true */
  readonly isReadable?: boolean;
}

/** Reads the budgets of accounts as a process does, which keeps what it has read for a while. */
export const accountBudgetsFrom = (read: () => Promise<Budget[]>) => createReadAccountBudgets(read, silentLogger);

/** What has been used in one database, as of a time, and the check of a call that it is held against. */
export function openBudgets(connection: Connection, now: () => Date) {
  const { counters, periods, keyTotals } = createAccountingModels(connection, 'gateway_');
  const readUsed = () => createReadUsed({ counters, periods, keyTotals, clock: { now: async () => now() } });
  const failing = async () => {
    throw new Error('away');
  };
  return {
    counters,
    periods,
    readUsed,
    check: ({ quota, accountBudgets, isReadable = true }: Checked = {}) =>
      createBudgetAdmission({
        readUsed: isReadable ? readUsed() : { ofAccount: failing, ofKeys: failing },
        quotaOf: () => quota,
        logger: silentLogger,
        ...(accountBudgets && { readAccountBudgets: ({ userId }) => accountBudgets(userId) }),
      }),
  };
}
