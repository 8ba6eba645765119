import type { Connection } from 'mongoose';
import { type CountDeps, createCount, RecentUsage } from '../../../src/accounting/count.ts';
import { CreditService } from '../../../src/accounting/credits.ts';
import { createAccountingModels, type UsageSums } from '../../../src/accounting/model.ts';
import { createQuotaOf } from '../../../src/accounting/thresholds.ts';
import { createWriteAccount } from '../../../src/accounting/write-account.ts';
import { catalogueOf } from '../../../src/events/catalogue.ts';
import { createEventModel, createOwnerModel } from '../../../src/events/model.ts';
import { createOutbox } from '../../../src/events/outbox.ts';
import { createEventService } from '../../../src/events/service.ts';
import type { QuotaOptions, UsageRecord } from '../../../src/index.ts';
import { createDatabaseClock } from '../../../src/mongo/clock.ts';
import { noFanOut, settled } from '../../events/harness.ts';
import { buildIndexes } from '../../support/database/indexes.ts';
import { newId } from '../../support/ids.ts';
import { silentLogger } from '../../support/logger.ts';
import { spec } from '../../support/openapi.ts';

/** What the property and crash tests of counting look at: records, counters, and the events that were published. */
export async function openLedger(connection: Connection) {
  const models = createAccountingModels(connection, 'gateway_');
  const { usage, counters, periods, keyTotals } = models;
  const events = createEventModel(connection, 'gateway_');
  const owners = createOwnerModel(connection, 'gateway_');
  const { accounts, ledger } = models;
  await buildIndexes(connection, usage, counters, periods, keyTotals, events, owners, accounts, ledger);
  const logger = silentLogger;
  const nobody = { targets: [], skipped: [] };
  const service = createEventService({
    connection,
    outbox: createOutbox(events, createDatabaseClock(connection)),
    owners,
    catalogue: catalogueOf(spec),
    webhooks: {
      subscribers: async () => ({ ...nobody, target: () => undefined, readAt: 0 }),
      recentSubscribers: () => undefined,
      confirmedSubscribers: async () => nobody,
      subscribersIn: async () => nobody,
    },
    settleSubscribers: settled,
    fanOut: noFanOut,
    logger,
    transactionLease: 500,
  });

  const credits = new CreditService({
    accounts,
    ledger,
    publish: service.publish,
    writeAccount: createWriteAccount(service.transaction),
    // a token of input costs a micro-credit
    options: { prices: { '*': { input: 1 } }, lowThreshold: 0.0005 },
    logger,
  });

  const sums = ({
    requests,
    inputTokens,
    cachedInputTokens,
    outputTokens,
    reasoningTokens,
    images,
    seconds,
    characters,
  }: UsageSums) => ({
    requests,
    inputTokens,
    cachedInputTokens,
    outputTokens,
    reasoningTokens,
    images,
    seconds,
    characters,
  });
  const total = (all: readonly UsageSums[]): UsageSums =>
    all.reduce<UsageSums>(
      (sum, one) => ({
        requests: sum.requests + one.requests,
        inputTokens: sum.inputTokens + one.inputTokens,
        cachedInputTokens: sum.cachedInputTokens + one.cachedInputTokens,
        outputTokens: sum.outputTokens + one.outputTokens,
        reasoningTokens: sum.reasoningTokens + one.reasoningTokens,
        images: sum.images + one.images,
        seconds: sum.seconds + one.seconds,
        characters: sum.characters + one.characters,
      }),
      {
        requests: 0,
        inputTokens: 0,
        cachedInputTokens: 0,
        outputTokens: 0,
        reasoningTokens: 0,
        images: 0,
        seconds: 0,
        characters: 0,
      },
    );

  return {
    usage,
    counters,
    periods,
    keyTotals,
    /** What a process remembers of its own records; nothing at first. */
    newRecentUsage: () => new RecentUsage(),
    /** One process that counts. */
    counter: (
      quotas?: QuotaOptions,
      batchSize = 500,
      others: Partial<Pick<CountDeps, 'recentUsage' | 'maxWait'>> = {},
    ) =>
      createCount({
        usage,
        counters,
        periods,
        keyTotals,
        transaction: service.transaction,
        publish: service.publish,
        credits,
        quotas: quotas && { quotaOf: createQuotaOf(quotas, logger), thresholds: quotas.thresholds },
        // a thousandth of a credit a token
        cost: ({ inputTokens, outputTokens }) => (inputTokens + outputTokens) * 1_000,
        logger,
        batchSize,
        ...others,
      }),
    /** Writes records that have ended. */
    async add(records: readonly Partial<UsageRecord>[]): Promise<void> {
      if (records.length === 0) return;
      await usage.insertMany(records.map((record) => toDocument(record)));
    },
    credits,
    /** What the credit ledger and the balances come to, in micro-credits, and what accounts were told of it. */
    async charged() {
      const entries = await models.ledger.find().lean();
      const accounts = await models.accounts.find().lean();
      const told = await events.find({ type: /^credits/ }).lean();
      return {
        entries: entries.filter(({ kind }) => kind === 'usage').length,
        sum: entries.reduce((sum, { amount }) => sum + amount, 0),
        balances: accounts.reduce((sum, { balance }) => sum + balance, 0),
        told: told.map(({ userId, type }) => `${userId} ${type}`).sort(),
      };
    },
    /** What the records, the counters by day, the periods, and the totals of keys with the records without a key come to. */
    async totals() {
      const records = await usage.find({ ending: { $ne: null } }).lean();
      const ofCalls = records.map((record) => ({ ...record, requests: 1 }));
      const keyless = ofCalls.filter(({ keyId }) => keyId === null);
      return {
        records: total(ofCalls),
        counters: total((await counters.find().lean()).map(sums)),
        days: total((await periods.find({ period: 'daily' }).lean()).map(sums)),
        months: total((await periods.find({ period: 'monthly' }).lean()).map(sums)),
        keys: total([...(await keyTotals.find().lean()).map(sums), ...keyless]),
      };
    },
    /** The data of every `usage.threshold`, in order. */
    async published(): Promise<Record<string, unknown>[]> {
      const found = await events.find({ type: 'usage.threshold' }).sort({ _id: 1 }).lean();
      return found.map(
        ({ body }) => JSON.parse(Buffer.from((body as unknown as { buffer: Buffer }).buffer).toString()).data,
      );
    },
  };
}

function toDocument({ id = newId('use', Date.now()), ...record }: Partial<UsageRecord>) {
  return {
    _id: id,
    requestId: 'req_1',
    userId: 'usr_1',
    keyId: 'key_1',
    endpoint: '/chat/completions',
    model: 'm',
    upstream: 'one',
    inputTokens: 10,
    cachedInputTokens: 3,
    outputTokens: 10,
    reasoningTokens: 4,
    images: 0,
    seconds: 0,
    characters: 0,
    estimated: false,
    ending: 'complete' as const,
    startedAt: new Date('2026-01-31T12:00:00Z'),
    durationMs: 1,
    firstByteMs: 1,
    ...record,
    counted: false,
  };
}

export type Ledger = Awaited<ReturnType<typeof openLedger>>;
