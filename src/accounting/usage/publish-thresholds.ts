import type { ClientSession } from 'mongoose';
import type { EventInput, PublishOptions } from '../../events/service.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { accountRows } from '../../options/accounts.ts';
import type { Logger, Quota } from '../../options/options.ts';
import { createPublishOrLog } from '../publish-or-log.ts';
import type { PeriodDocument, PeriodModel } from './model.ts';
import { countedLimit, type QuotaOf, usedOf } from './quotas.ts';
import { type CountedRecord, type PeriodAddition, requestsIn } from './sums.ts';
import { type Crossing, crossings } from './thresholds.ts';

/** Quotas, and the percentages of them that events report. */
export interface ThresholdQuotas {
  readonly quotaOf: QuotaOf;
  /** @default [80, 100] */
  readonly thresholds: readonly number[] | undefined;
}

export interface ThresholdDeps {
  readonly periods: PeriodModel;
  readonly publish: (input: EventInput, options: PublishOptions) => Promise<unknown>;
  /** `undefined` for none: then no threshold is published. */
  readonly quotas: ThresholdQuotas | undefined;
  /** What a record costs, in micro-credits; quotas of credits count it. */
  readonly cost: (record: CountedRecord) => number;
  readonly logger: Logger;
}

/** Publishes the thresholds that days and months have reached, in the transaction that adds to them. */
export type PublishThresholds = (additions: readonly PeriodAddition[], session?: ClientSession) => Promise<void>;

export function createPublishThresholds({ quotas, publish, cost, logger, ...deps }: ThresholdDeps): PublishThresholds {
  const periods = durableCollection(deps.periods);
  const publishOrLog = createPublishOrLog(publish, logger);
  const thresholds = quotas?.thresholds ?? accountRows['quotas.thresholds'].default;
  const quotaOf: QuotaOf = quotas?.quotaOf ?? (() => undefined);

  async function publishCrossing(
    { userId, period, start }: PeriodDocument,
    crossing: Crossing,
    session?: ClientSession,
  ) {
    const { threshold, usage: current_usage } = crossing;
    const data = { user_id: userId, threshold, current_usage, period };
    const idempotencyKey = `usage.threshold:${period}:${start}:${threshold}`;
    await publishOrLog({ type: 'usage.threshold', userId, data }, { idempotencyKey, ...(session && { session }) });
  }

  function amountOf(record: CountedRecord, unit: Quota['unit']): number {
    if (unit === 'requests') return requestsIn(record);
    return unit === 'credits' ? cost(record) : record.inputTokens + record.outputTokens;
  }

  function crossed(addition: PeriodAddition, after: PeriodDocument): Crossing[] {
    const quota = quotaOf(after.userId);
    const limit = quota?.[after.period];
    if (!quota || limit === undefined) return [];
    const amounts = addition.records.map((record) => amountOf(record, quota.unit));
    const before = usedOf(after, quota.unit) - amounts.reduce((sum, amount) => sum + amount, 0);
    return crossings({
      before,
      amounts,
      quota: countedLimit(limit, quota.unit),
      thresholds,
      announced: after.announced ?? [],
    });
  }

  return async function publishThresholds(additions, session) {
    const concerned = additions.filter(({ key }) => quotaOf(key.userId)?.[key.period] !== undefined);
    if (concerned.length === 0) return;
    const byId = new Map(concerned.map((addition) => [addition.key._id, addition]));
    const documents = await periods.find({ _id: { $in: [...byId.keys()] } }, { ...(session && { session }) }).toArray();
    for (const after of documents) {
      const addition = byId.get(after._id);
      const reached = addition ? crossed(addition, after) : [];
      if (reached.length === 0) continue;
      for (const crossing of reached) await publishCrossing(after, crossing, session);
      const announced = { $each: reached.map(({ threshold }) => threshold) };
      await periods.updateOne({ _id: after._id }, { $push: { announced } }, { ...(session && { session }) });
    }
  };
}
