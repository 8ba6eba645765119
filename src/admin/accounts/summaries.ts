import type { CreditService } from '../../accounting/credits/service.ts';
import { microCreditsPerCredit } from '../../accounting/micro-credits.ts';
import type { PeriodDocument, PeriodModel } from '../../accounting/usage/model.ts';
import { dayOf, periodsOf } from '../../accounting/usage/sums.ts';
import { countWorking, type KeyModel } from '../../keys/model.ts';
import { durableCollection, inOneBatch } from '../../mongo/collection.ts';
import { isFailing } from '../../webhooks/health/health-state.ts';
import type { HealthModel } from '../../webhooks/health/model.ts';
import type { WebhookModel } from '../../webhooks/model.ts';
import type { AccountSummary, AccountUsage } from './account.ts';

export interface SummariesDeps {
  readonly keys: KeyModel;
  readonly webhooks: WebhookModel;
  readonly healths: HealthModel;
  /** `undefined` where usage is not counted. */
  readonly periods: PeriodModel | undefined;
  /** `undefined` without credits. */
  readonly credits: Pick<CreditService, 'balances'> | undefined;
}

/** Sums up these accounts, in their order: all of them by a query of each collection. */
export type ReadSummaries = (userIds: readonly string[]) => Promise<AccountSummary[]>;

const noWebhooks = { total: 0, failing: 0, disabled: 0 } as const;

function createCountWebhooks({ webhooks, healths }: SummariesDeps) {
  const webhookCollection = durableCollection(webhooks);
  const healthCollection = durableCollection(healths);
  return async function countWebhooks(userIds: readonly string[]) {
    const documents = await webhookCollection
      .find({ userId: { $in: [...userIds] } }, { projection: { userId: 1, active: 1, disabled: 1 }, ...inOneBatch })
      .toArray();
    const active = documents.filter((webhook) => webhook.active).map(({ _id }) => _id);
    const failing = await healthCollection
      .find({ _id: { $in: active }, $expr: isFailing }, { projection: { _id: 1 }, ...inOneBatch })
      .toArray();
    const failingIds = new Set(failing.map(({ _id }) => _id));
    const counts = new Map<string, { total: number; failing: number; disabled: number }>();
    for (const { _id, userId, disabled } of documents) {
      const count = counts.get(userId) ?? { ...noWebhooks };
      counts.set(userId, count);
      count.total += 1;
      if (failingIds.has(_id)) count.failing += 1;
      if (disabled) count.disabled += 1;
    }
    return counts;
  };
}

function toUsage({ requests, inputTokens, outputTokens, microCredits = 0 }: PeriodDocument): AccountUsage {
  const cost = microCredits > 0 && { credits: microCredits / microCreditsPerCredit };
  return { requests, inputTokens, outputTokens, ...cost };
}

const noUsage: AccountUsage = { requests: 0, inputTokens: 0, outputTokens: 0 };

function createReadUsage(periods: PeriodModel) {
  const collection = durableCollection(periods);
  return async function readUsage(userIds: readonly string[]): Promise<ReadonlyMap<string, AccountUsage>> {
    const today = dayOf(new Date());
    const ids = userIds.flatMap((userId) =>
      periodsOf({ userId }, today).flatMap(({ _id, period }) => (period === 'monthly' ? [_id] : [])),
    );
    const monthlyPeriods = await collection.find({ _id: { $in: ids } }, inOneBatch).toArray();
    return new Map(monthlyPeriods.map((period) => [period.userId, toUsage(period)]));
  };
}

export function createReadSummaries(deps: SummariesDeps): ReadSummaries {
  const { keys, periods, credits } = deps;
  const countWebhooks = createCountWebhooks(deps);
  const readUsage = periods && createReadUsage(periods);

  return async function readSummaries(userIds) {
    const [working, webhooks, usage, balances] = await Promise.all([
      countWorking(keys, userIds),
      countWebhooks(userIds),
      readUsage?.(userIds),
      credits?.balances(userIds),
    ]);
    return userIds.map((userId) => ({
      userId,
      apiKeys: { working: working.get(userId) ?? 0 },
      webhooks: webhooks.get(userId) ?? noWebhooks,
      usage: usage ? (usage.get(userId) ?? noUsage) : null,
      creditsRemaining: balances?.get(userId) ?? null,
    }));
  };
}
