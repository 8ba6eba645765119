import type { BudgetService } from '../accounting/budgets/service.ts';
import type { CreditService } from '../accounting/credits/service.ts';
import type { PeriodModel } from '../accounting/usage/model.ts';
import type { KeyService } from '../keys/service.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { HealthModel } from '../webhooks/health/model.ts';
import { createListAccountIds } from './accounts/account-ids.ts';
import { type AccountService, createAccountService } from './accounts/service.ts';
import { createReadSummaries } from './accounts/summaries.ts';
import { createListFailingWebhooks, type ListFailingWebhooks } from './failing-webhooks.ts';
import { createListRefusals, type ListRefusals } from './refusals/list.ts';
import type { RefusalModel } from './refusals/model.ts';
import { createSearch, type Search, type SearchDeps } from './search.ts';
import { createReadWebhooks } from './webhooks.ts';

export interface AdminServiceDeps {
  readonly models: SearchDeps['models'] & {
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

/** What the operator sees of all accounts. */
export interface AdminService extends AccountService {
  readonly failingWebhooks: ListFailingWebhooks;
  readonly refusals: ListRefusals;
  readonly search: Search;
}

/** Joins what the operator may ask about accounts. */
export function createAdminService({ models, keys, budgets, credits, options }: AdminServiceDeps): AdminService {
  const { webhooks, health: healths } = models;
  const shared = { keys: models.keys, webhooks, periods: options.usage ? models.periods : undefined };
  const listIds = createListAccountIds(shared);
  const readWebhooks = createReadWebhooks({ webhooks, healths });
  const listRefusals = createListRefusals(models.refusals);
  return {
    ...createAccountService({
      listIds,
      readSummaries: createReadSummaries({ ...shared, healths, credits }),
      readWebhooks,
      listRefusals,
      keys,
      budgets,
      credits,
      limits: options.limits,
    }),
    failingWebhooks: createListFailingWebhooks({ healths, webhooks, readWebhooks }),
    refusals: listRefusals,
    search: createSearch({ models, listIds }),
  };
}
