import type { CreditService } from '../accounting/credits.ts';
import type { PeriodDocument, PeriodModel } from '../accounting/model.ts';
import { microCreditsPerCredit } from '../accounting/price.ts';
import { dayOf, periodsOf } from '../accounting/sums.ts';
import { countWorking, type KeyModel } from '../keys/model.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { isFailing } from '../webhooks/health.ts';
import type { HealthModel, WebhookModel } from '../webhooks/model.ts';

/** What an account has, and what it has used this month (UTC). */
export interface AccountSummary {
  readonly userId: string;
  readonly apiKeys: {
    /** Keys that have not expired and are not revoked. */
    readonly working: number;
  };
  readonly webhooks: {
    readonly total: number;
    /** Active ones whose health is `failing`. */
    readonly failing: number;
    /** Those that the gateway has disabled. */
    readonly disabled: number;
  };
  /** `null` where usage is not counted. */
  readonly usage: AccountUsage | null;
  /** `null` without the option `credits`. */
  readonly creditsRemaining: number | null;
}

/** What the model calls of an account have used in a month. */
export interface AccountUsage {
  readonly requests: number;
  /** Includes cached ones. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** What they cost; absent if they cost nothing. */
  readonly credits?: number;
}

/** What accounts are found by, and summed up from. */
export interface AccountModels {
  readonly keys: KeyModel;
  readonly webhooks: WebhookModel;
  readonly health: HealthModel;
  /** `undefined` where usage is not counted. */
  readonly periods: PeriodModel | undefined;
}

interface AccountRange {
  /** The user id that the page follows; `undefined` for the first page. */
  readonly after: string | undefined;
  /** What the user ids begin with; `undefined` for any. */
  readonly prefix: string | undefined;
  readonly limit: number;
}

/** Lists the ids of accounts that have a key, a webhook or usage this month, in the order of their bytes, as the database sorts them. */
export type ListAccountIds = (range: AccountRange) => Promise<string[]>;

type OfAccount = { readonly userId: string; readonly period?: string; readonly start?: string };

/** One collection, and an index of it by user id. */
interface Source {
  readonly collection: ReturnType<typeof durableCollection<OfAccount>>;
  readonly hint: string;
  readonly filter?: Pick<OfAccount, 'period' | 'start'>;
}

/** How many entries of an index are read at once for each account that is wanted: an account has several keys and webhooks. */
const entriesPerAccount = 4;

/** Those of one collection. An account with very many entries costs one more read for so many of them, never a scan of them all. */
async function idsIn({ collection, hint, filter }: Source, { after, prefix, limit }: AccountRange): Promise<string[]> {
  const withPrefix = prefix === undefined ? {} : { $gte: prefix, $lt: `${prefix}\u{10ffff}` };
  const ids: string[] = [];
  const size = entriesPerAccount * limit;
  // no id is empty
  let past = after ?? '';
  while (ids.length < limit) {
    const options = { projection: { _id: 0, userId: 1 }, hint, batchSize: size + 1 } as const;
    const documents = await collection
      .find({ ...filter, userId: { ...withPrefix, $gt: past } }, options)
      .sort({ userId: 1 })
      .limit(size)
      .toArray();
    ids.push(...new Set(documents.map(({ userId }) => userId)));
    if (documents.length < size) break;
    past = ids.at(-1) as string;
  }
  return ids.slice(0, limit);
}

const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Merges what three indexes list. No collection has a document for each account. */
export function createListAccountIds({ keys, webhooks, periods }: AccountModels): ListAccountIds {
  const sourceOf = (model: unknown, hint: string) => ({
    collection: durableCollection<OfAccount>(model as never),
    hint,
  });
  const byUser = [sourceOf(keys, 'userKeys'), sourceOf(webhooks, 'userWebhooks')];
  const used = periods && sourceOf(periods, 'monthAccounts');

  return async function listAccountIds(range) {
    const filter = { period: 'monthly', start: dayOf(new Date()).slice(0, 7) };
    const sources: readonly Source[] = [...byUser, ...(used ? [{ ...used, filter }] : [])];
    const idLists = await Promise.all(sources.map((source) => idsIn(source, range)));
    return [...new Set(idLists.flat())].sort(byBytes).slice(0, range.limit);
  };
}

const noWebhooks = { total: 0, failing: 0, disabled: 0 } as const;

async function countWebhooks({ webhooks, health }: AccountModels, userIds: readonly string[]) {
  const documents = await durableCollection(webhooks)
    .find({ userId: { $in: [...userIds] } }, { projection: { userId: 1, active: 1, disabled: 1 }, ...inOneBatch })
    .toArray();
  const active = documents.filter((webhook) => webhook.active).map(({ _id }) => _id);
  const failing = await durableCollection(health)
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
}

const noUsage: AccountUsage = { requests: 0, inputTokens: 0, outputTokens: 0 };

function toUsage({ requests, inputTokens, outputTokens, microCredits = 0 }: PeriodDocument): AccountUsage {
  const cost = microCredits > 0 && { credits: microCredits / microCreditsPerCredit };
  return { requests, inputTokens, outputTokens, ...cost };
}

async function readUsage(periods: PeriodModel, userIds: readonly string[]): Promise<Map<string, AccountUsage>> {
  const today = dayOf(new Date());
  const all = userIds.flatMap((userId) => periodsOf({ userId }, today));
  const ids = all.filter(({ period }) => period === 'monthly').map(({ _id }) => _id);
  const monthlyPeriods = await durableCollection(periods)
    .find({ _id: { $in: ids } }, inOneBatch)
    .toArray();
  return new Map(monthlyPeriods.map((period) => [period.userId, toUsage(period)]));
}

/**
 * Sums accounts up, in the order of their ids: all of them by a query of each collection.
 * @param credits `undefined` without credits
 */
export async function readSummaries(
  models: AccountModels,
  credits: Pick<CreditService, 'balances'> | undefined,
  userIds: readonly string[],
): Promise<AccountSummary[]> {
  const [working, webhooks, usage, balances] = await Promise.all([
    countWorking(models.keys, userIds),
    countWebhooks(models, userIds),
    models.periods && readUsage(models.periods, userIds),
    credits?.balances(userIds),
  ]);
  return userIds.map((userId) => ({
    userId,
    apiKeys: { working: working.get(userId) ?? 0 },
    webhooks: webhooks.get(userId) ?? noWebhooks,
    usage: usage ? (usage.get(userId) ?? noUsage) : null,
    creditsRemaining: balances?.get(userId) ?? null,
  }));
}
