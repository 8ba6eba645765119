import type { BudgetService } from '../../accounting/budgets/service.ts';
import type { CreditService } from '../../accounting/credits/service.ts';
import { limitsOf } from '../../accounting/limits/limiter.ts';
import { checkStorableId, checkUserId } from '../../ids.ts';
import type { KeyService } from '../../keys/service.ts';
import { checkLimit, pageLimit } from '../../mongo/list-page.ts';
import type { LimitOptions, RateLimits } from '../../options/options.ts';
import { countByCode, type ListRefusals } from '../refusals/list.ts';
import type { ReadWebhooks } from '../webhooks.ts';
import type { AccountDetails, AccountSummary } from './account.ts';
import type { ListAccountIds } from './account-ids.ts';
import type { ReadSummaries } from './summaries.ts';

/** Which page of the accounts. */
export interface AccountPage {
  /** 1 to 100. @default 100 */
  readonly limit?: number;
  /** The user id that the page follows. */
  readonly after?: string;
  /** What the user ids begin with. @default any */
  readonly prefix?: string;
}

export interface AccountsDeps {
  readonly listIds: ListAccountIds;
  readonly readSummaries: ReadSummaries;
  readonly readWebhooks: ReadWebhooks;
  readonly listRefusals: ListRefusals;
  readonly keys: Pick<KeyService, 'list'>;
  /** `undefined` where usage is not counted. */
  readonly budgets: Pick<BudgetService, 'get'> | undefined;
  /** `undefined` without credits. */
  readonly credits: Pick<CreditService, 'balance'> | undefined;
  readonly limits: LimitOptions | undefined;
}

/** The most webhooks of an account that are read; fewer may be made. */
const webhookLimit = 1_000;

/** What the operator sees of accounts. */
export interface AccountService {
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
}

/** The limits of an account; unknown where a host's function fails, which may need more than the id. */
function perUserOf(perUser: LimitOptions['perUser'], userId: string): RateLimits | null | 'unknown' {
  try {
    return limitsOf(perUser, { userId }) ?? null;
  } catch {
    return 'unknown';
  }
}

function rateLimitsOf({ perUser, perKey }: LimitOptions, userId: string): AccountDetails['rateLimits'] {
  const ofUser = perUserOf(perUser, userId);
  const perKeyIsUnknown = typeof perKey === 'function';
  return {
    perUser: ofUser === 'unknown' ? null : ofUser,
    perUserIsUnknown: ofUser === 'unknown',
    perKey: perKeyIsUnknown ? null : (perKey ?? null),
    perKeyIsUnknown,
  };
}

export function createAccountService(deps: AccountsDeps): AccountService {
  const { listIds, readSummaries, readWebhooks, listRefusals, keys, budgets, credits, limits = {} } = deps;

  return {
    async accounts({ limit = pageLimit, after, prefix } = {}) {
      checkLimit(limit);
      if (after !== undefined) checkStorableId('after', after);
      if (prefix !== undefined) checkStorableId('prefix', prefix);
      const ids = await listIds({ limit: limit + 1, after, prefix });
      return { accounts: await readSummaries(ids.slice(0, limit)), hasMore: ids.length > limit };
    },

    async account(userId) {
      checkUserId(userId);
      const [[account], apiKeys, webhooks, budgetUsages, balance, { refusals }] = await Promise.all([
        readSummaries([userId]),
        keys.list(userId),
        readWebhooks({ userId }, webhookLimit, 'userWebhooks'),
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
        rateLimits: rateLimitsOf(limits, userId),
        refusals: countByCode(refusals),
      };
    },
  };
}
