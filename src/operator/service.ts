import type { BudgetService } from '../accounting/budgets.ts';
import type { CreditService } from '../accounting/credits.ts';
import { limitsOf } from '../accounting/limiter.ts';
import type { PeriodModel } from '../accounting/model.ts';
import { checkStorableId, checkUserId } from '../ids.ts';
import type { ApiKey } from '../keys/api-key.ts';
import type { KeyService } from '../keys/service.ts';
import { checkLimit, pageLimit } from '../mongo/list-page.ts';
import type { BudgetUsage } from '../options/budgets.ts';
import type { LimitOptions, RateLimits, ResolvedOptions } from '../options/options.ts';
import type { HealthModel } from '../webhooks/model.ts';
import { type AccountSummary, createListAccountIds, readSummaries } from './accounts.ts';
import type { RefusalModel } from './model.ts';
import { countByCode, createListRefusals, type ListRefusals, type RefusalCount } from './refusals.ts';
import { createSearch, type Search, type SearchedModels } from './search.ts';
import { type AccountWebhook, createListFailingWebhooks, type ListFailingWebhooks, readWebhooks } from './webhooks.ts';

/** Which page of the accounts. */
export interface AccountPage {
  /** 1 to 100. @default 100 */
  readonly limit?: number;
  /** The user id that the page follows. */
  readonly after?: string;
  /** What the user ids begin with. @default any */
  readonly prefix?: string;
}

/** What an account has and may use. */
export interface AccountDetails {
  readonly account: AccountSummary;
  /** The first 100, oldest first. */
  readonly apiKeys: { readonly keys: readonly ApiKey[]; readonly hasMore: boolean };
  /** Oldest first. */
  readonly webhooks: readonly AccountWebhook[];
  /** `null` where usage is not counted. */
  readonly budgets: readonly BudgetUsage[] | null;
  /** `null` without the option `credits`. */
  readonly credits: { readonly creditsRemaining: number; readonly lowThreshold: number } | null;
  readonly rateLimits: {
    /** `null` for no limits. */
    readonly perUser: RateLimits | null;
    /** Whether a function of the host has failed that was asked with the user id alone. */
    readonly perUserIsUnknown: boolean;
    /** `null` for no limits. */
    readonly perKey: RateLimits | null;
    /** Whether a function of the host decides for each key. */
    readonly perKeyIsUnknown: boolean;
  };
  /** What was refused in the last 24 hours, the most first. */
  readonly refusals: readonly RefusalCount[];
}

/** What the operator sees of all accounts. */
export interface AdminService {
  /**
   * Every account that has an API key, a webhook, or usage this month (UTC), by user id.
   * @throws GatewayError `invalid_value`
   */
  accounts(page?: AccountPage): Promise<{ readonly accounts: AccountSummary[]; readonly hasMore: boolean }>;
  /**
   * One account; an unknown one has nothing.
   * @throws GatewayError `invalid_value`
   */
  account(userId: string): Promise<AccountDetails>;
  readonly failingWebhooks: ListFailingWebhooks;
  readonly refusals: ListRefusals;
  readonly search: Search;
}

export interface AdminServiceDeps {
  readonly models: SearchedModels & {
    readonly health: HealthModel;
    readonly periods: PeriodModel;
    readonly refusals: RefusalModel;
  };
  readonly keys: Pick<KeyService, 'list'>;
  /** `undefined` where usage is not counted. */
  readonly budgets: Pick<BudgetService, 'get'> | undefined;
  /** `undefined` without credits. */
  readonly credits: Pick<CreditService, 'balance' | 'balances'> | undefined;
  readonly options: Pick<ResolvedOptions, 'limits' | 'usage'>;
}

/** The most webhooks of an account that are read; fewer may be made. */
const webhookLimit = 1_000;

function rateLimitsOf({ perUser, perKey }: LimitOptions, userId: string): AccountDetails['rateLimits'] {
  const perKeyIsUnknown = typeof perKey === 'function';
  const ofKeys = { perKey: perKeyIsUnknown ? null : (perKey ?? null), perKeyIsUnknown };
  try {
    return { perUser: limitsOf(perUser, { userId }) ?? null, perUserIsUnknown: false, ...ofKeys };
  } catch {
    // a function of the host's, which may need more than the id
    return { perUser: null, perUserIsUnknown: true, ...ofKeys };
  }
}

export function createAdminService({ models, keys, budgets, credits, options }: AdminServiceDeps): AdminService {
  const accountModels = { ...models, periods: options.usage ? models.periods : undefined };
  const listIds = createListAccountIds(accountModels);
  const listRefusals = createListRefusals(models.refusals);

  return {
    async accounts({ limit = pageLimit, after, prefix } = {}) {
      checkLimit(limit);
      if (after !== undefined) checkStorableId('after', after);
      if (prefix !== undefined) checkStorableId('prefix', prefix);
      const ids = await listIds({ limit: limit + 1, after, prefix });
      return {
        accounts: await readSummaries(accountModels, credits, ids.slice(0, limit)),
        hasMore: ids.length > limit,
      };
    },

    async account(userId) {
      checkUserId(userId);
      const [[account], apiKeys, webhooks, budgetUsages, balance, { refusals }] = await Promise.all([
        readSummaries(accountModels, credits, [userId]),
        keys.list(userId),
        readWebhooks(models, { userId }, webhookLimit, 'userWebhooks'),
        budgets?.get(userId),
        credits?.balance(userId),
        listRefusals({ userId }),
      ]);
      return {
        account: account as AccountSummary,
        apiKeys,
        webhooks,
        budgets: budgetUsages ?? null,
        credits: balance ?? null,
        rateLimits: rateLimitsOf(options.limits, userId),
        refusals: countByCode(refusals),
      };
    },

    failingWebhooks: createListFailingWebhooks(models),
    refusals: listRefusals,
    search: createSearch(models, listIds),
  };
}
