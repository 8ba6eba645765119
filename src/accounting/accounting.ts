import type { createModels } from '../collections.ts';
import type { EventService } from '../events/service.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { type RunInTransaction, whileAwaited } from '../mongo/transaction.ts';
import type { ModelCall, ResolvedOptions } from '../options/options.ts';
import type { AdmissionCheck } from '../proxy/admission.ts';
import { longestCall } from '../proxy/routing/upstream.ts';
import { costOf } from './credits/price.ts';
import { type CreditService, createCreditService } from './credits/service.ts';
import { createLimitService, type LimitService } from './limits/service.ts';
import { createPaymentService, type PaymentService } from './payments/service.ts';
import { createCount, createCounting, RecentUsage } from './usage/count.ts';
import { createReport, type ReportUsage } from './usage/report.ts';
import { createUsageService, type UsageService } from './usage/service.ts';
import { createInTurn } from './writer-turns.ts';

export interface AccountingDeps {
  readonly models: ReturnType<typeof createModels>;
  readonly publish: EventService['publish'];
  readonly transaction: RunInTransaction;
  readonly database: Pick<DatabaseAccess, 'isUnavailable'>;
  readonly options: ResolvedOptions;
}

/** What model calls use, cost and may ask for, and what is paid for it. */
export interface Accounting {
  /** `undefined` where usage is not counted. */
  readonly usage: UsageService | undefined;
  /** `undefined` where usage is not counted. */
  readonly report: ReportUsage | undefined;
  /** `undefined` where credits are off. */
  readonly credits: CreditService | undefined;
  readonly payments: PaymentService;
  readonly limits: LimitService;
  /** Which checks may refuse a model call, in this order. */
  readonly admissionChecks: readonly AdmissionCheck[];
  /** Builds the indexes. */
  init(): Promise<void>;
  /** Counts, closes orphans and publishes windows in this process from now on. */
  start(): void;
  /** Writes what waits. */
  close(): Promise<void>;
}

/** The most records that are counted in one transaction. */
const batchSize = 2_000;

/** Joins usage, credits, payments and limits. */
export function createAccounting({ models, publish, transaction, database, options }: AccountingDeps): Accounting {
  const { logger } = options;
  const { accounts, ledger } = models;
  const inTurn = createInTurn();
  const credits =
    options.credits &&
    createCreditService({
      accounts,
      ledger,
      publish,
      transaction: whileAwaited(transaction),
      inTurn,
      database,
      options: options.credits,
      logger,
    });
  const payments = createPaymentService({
    payments: models.payments,
    publish,
    transaction: whileAwaited(transaction),
    ...(credits && { inTurn, reserve: credits.reserve, credit: credits.credit, credited: credits.credited }),
  });
  const recentUsage = new RecentUsage();
  const usage = createUsageService({
    usage: models.usage,
    logger,
    longestCall: longestCall(options.upstreams),
    waitingLimit: options.usageBacklog,
    onWritten: (records) => recentUsage.add(records),
    ...(credits && { onLost: credits.lost }),
  });
  const prices = options.credits?.prices;
  const counting = createCounting({
    count: createCount({
      usage: models.usage,
      counters: models.counters,
      periods: models.periods,
      transaction,
      publish,
      quotas: options.quotas,
      ...(credits && { charge: credits.charge, chargeNew: credits.chargeNew, charged: credits.charged }),
      ...(prices && { cost: (record) => costOf(prices, record) }),
      recentUsage,
      maxWait: 1_000,
      logger,
      batchSize,
    }),
    batchSize,
    interval: 500,
    logger,
  });
  const limits = createLimitService({
    rates: models.rates,
    exceeded: models.exceeded,
    publish,
    options: options.limits,
    logger,
  });
  const { admit } = limits;

  return {
    usage: options.usage ? usage : undefined,
    report: options.usage ? createReport(models.counters) : undefined,
    credits,
    payments,
    limits,
    admissionChecks: [
      ...(admit ? [({ principal }: ModelCall, tokens: number) => admit(principal, tokens)] : []),
      ...(credits ? [credits.admit] : []),
    ],
    async init() {
      await Promise.all([
        models.usage.createIndexes(),
        models.counters.createIndexes(),
        models.periods.createIndexes(),
        models.payments.createCollection(),
        models.rates.createIndexes(),
        models.exceeded.createIndexes(),
        credits?.init(),
      ]);
    },
    start() {
      if (options.usage) {
        usage.start();
        recentUsage.open();
        counting.start();
      }
      limits.start();
    },
    async close() {
      await Promise.all([usage.close(), counting.stop(), limits.close(), credits?.close()]);
    },
  };
}
