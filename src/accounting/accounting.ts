import type { EventService } from '../events/service.ts';
import { AccountTurns } from '../fairness/account-shares.ts';
import type { DatabaseClock } from '../mongo/clock.ts';
import { durableCollection } from '../mongo/collection.ts';
import { type DatabaseAccess, type RunInTransaction, whileAwaited } from '../mongo/connection/availability.ts';
import { createPeriodic, type Periodic } from '../mongo/periodic.ts';
import { isDuplicateKey } from '../mongo/writes.ts';
import type { Fixed } from '../options/fixed.ts';
import type { ModelCall, ResolvedOptions } from '../options/options.ts';
import type { AdmissionCheck } from '../proxy/admission.ts';
import { longestCall } from '../proxy/upstream.ts';
import { createBudgetAdmission, createReadAccountBudgets } from './budget-admission.ts';
import { createBudgetService, createReadUsed } from './budgets.ts';
import { type CountDeps, createCount, longestCount, RecentUsage } from './count.ts';
import type { CreditObserver } from './credit-admission.ts';
import { CreditService } from './credits.ts';
import { createLimitService } from './limits.ts';
import type { AccountingModels } from './model.ts';
import { createPaymentService } from './payments.ts';
import { costOf, longWorks } from './price.ts';
import { createReport } from './report.ts';
import { createQuotaOf, type ThresholdQuotas } from './thresholds.ts';
import { UsageService } from './usage-writer.ts';
import { createWriteAccount } from './write-account.ts';

export interface AccountingDeps {
  readonly models: AccountingModels;
  readonly publish: EventService['publish'];
  readonly transaction: RunInTransaction;
  readonly database: Pick<DatabaseAccess, 'whenAvailable'>;
  readonly clock: DatabaseClock;
  readonly creditObserver: CreditObserver;
  readonly options: ResolvedOptions;
  readonly fixed: Fixed;
}

/** What model calls use and cost, which of them are admitted, and what accounts pay. */
export type Accounting = ReturnType<typeof createAccounting>;

/**
 * How long records are gathered after some were counted: a call after a pause is counted at once, and of a steady flow each transaction, which is some
 * ten commands, counts what has come meanwhile. Counted every 500 ms, ten calls a second take 1.14 times the CPU of the process (1.06 to 1.15 in
 * three pairs) and 1.14 times that of mongod (1.10 to 1.22). Milliseconds.
 */
const gatherRecords = 900;

/** Joins credits and payments; without the option `credits`, payments are only booked. */
function createCreditsAndPayments({ models, publish, transaction, database, options, creditObserver }: AccountingDeps) {
  const { logger } = options;
  const writeAccount = createWriteAccount(whileAwaited(transaction), options.credits && new AccountTurns(1));
  const credits =
    options.credits &&
    new CreditService({
      ...models,
      publish,
      writeAccount,
      database,
      options: options.credits,
      observer: creditObserver,
      logger,
    });
  return { credits, payments: createPaymentService({ ...models, publish, credits, writeAccount }) };
}

/** Counts at every interval, and again at once if a run may have left records. @param interval milliseconds */
function createCounting(deps: CountDeps, interval: number): Periodic {
  const count = createCount(deps);

  async function task(): Promise<void> {
    try {
      if ((await count()) >= deps.batchSize) counting.runNow();
    } catch (error) {
      // another process inserted the same counter at the same moment: the next run finds it
      if (!isDuplicateKey(error)) throw error;
    }
  }

  const { logger } = deps;
  const counting = createPeriodic({ name: 'counting usage', task, interval, longestRun: longestCount, logger });
  return counting;
}

/** Joins the records of calls and their counting, which also charges for them. */
function createUsageAccounting(
  { models, publish, transaction, options, fixed }: AccountingDeps,
  quotas: ThresholdQuotas | undefined,
  credits?: CreditService,
) {
  const { logger, credits: prices } = options;
  const recentUsage = new RecentUsage(gatherRecords);
  const service = new UsageService({
    usage: models.usage,
    logger,
    longestCall: longestCall(options.upstreams),
    waitingLimit: fixed.usageBacklog,
    onWritten(records) {
      recentUsage.add(records);
      if (recentUsage.isDue) counting.runNow();
    },
    ...(credits && { charging: credits }),
  });
  const counting = createCounting(
    {
      ...models,
      transaction,
      publish,
      quotas,
      ...(credits && { credits }),
      ...(prices && { cost: (record) => costOf(prices, record) }),
      recentUsage,
      maxWait: 1_000,
      logger,
      batchSize: 2_000,
    },
    500,
  );

  return {
    service,
    start() {
      service.start();
      recentUsage.open();
      counting.start();
    },
    async close() {
      await Promise.all([service.close(), counting.stop()]);
    },
  };
}

/** Joins the quotas and budgets that calls are refused by. */
function createBudgets({ models, clock, options }: AccountingDeps, quotas: ThresholdQuotas | undefined) {
  const readUsed = createReadUsed({ ...models, clock });
  const quotaOf = options.quotas?.enforce ? quotas?.quotaOf : undefined;
  const { logger, credits } = options;
  const service = createBudgetService(readUsed, models.accountBudgets, credits !== undefined);
  const readBudgets = createReadAccountBudgets(service.ofAccount, logger);
  // keys of the gateway's own come with the budgets of their account; whom a host's own functions name comes without
  const readAccountBudgets = ({ userId, keyId }: ModelCall['principal']) =>
    options.authenticate || (options.dashboard?.authenticate && keyId === undefined) ? readBudgets(userId) : undefined;
  return { service, admit: createBudgetAdmission({ readUsed, quotaOf, credits, logger, readAccountBudgets }) };
}

export function createAccounting(deps: AccountingDeps) {
  const { models, publish, options } = deps;
  const { credits, payments } = createCreditsAndPayments(deps);
  const quotas = options.quotas && {
    quotaOf: createQuotaOf(options.quotas, options.logger),
    thresholds: options.quotas.thresholds,
  };
  const metering = createUsageAccounting(deps, quotas, credits);
  const budgets = createBudgets(deps, quotas);
  const limits = createLimitService({
    rates: durableCollection(models.rates),
    exceeded: durableCollection(models.exceeded),
    publish,
    options: options.limits,
    syncInterval: deps.fixed.syncInterval,
    eventWindow: deps.fixed.limitEventWindow,
    logger: options.logger,
  });
  const { admit } = limits;
  /** What a model call has to pass, in this order. */
  const admissionChecks: AdmissionCheck[] = [];
  if (admit) {
    // a batch or a training has counted as a request before it was read; a provider takes hours for its tokens, under limits of its own
    admissionChecks.push(({ principal, endpoint, model }, tokens, output) =>
      longWorks.has(endpoint) && model !== undefined ? undefined : admit(principal, tokens, output, endpoint),
    );
  }
  if (options.usage) admissionChecks.push(budgets.admit);
  if (credits) admissionChecks.push(credits.admit);

  return {
    usage: options.usage ? metering.service : undefined,
    report: options.usage ? createReport(models.counters) : undefined,
    budgets: options.usage ? budgets.service : undefined,
    credits,
    payments,
    limits,
    admissionChecks,
    /** Starts the periodic work of this process: it counts usage, closes orphaned records and publishes windows. */
    start(): void {
      if (options.usage) metering.start();
      limits.start();
    },
    /** Stops that work, and writes what is not written yet. */
    async close(): Promise<void> {
      await Promise.all([metering.close(), limits.close(), credits?.close()]);
    },
  };
}
