import type { BudgetService } from '../accounting/budgets/service.ts';
import type { CreditService } from '../accounting/credits/service.ts';
import type { PeriodModel } from '../accounting/usage/model.ts';
import type { KeyModel } from '../keys/model.ts';
import type { KeyService } from '../keys/service.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { HealthModel } from '../webhooks/health/model.ts';
import type { WebhookModel } from '../webhooks/model.ts';
import { createListAccountIds } from './accounts/account-ids.ts';
import { type AccountService, createAccountService } from './accounts/service.ts';
import { createReadSummaries } from './accounts/summaries.ts';
import { createReadWebhooks } from './webhooks.ts';

export interface AdminServiceDeps {
  readonly models: {
    readonly keys: KeyModel;
    readonly webhooks: WebhookModel;
    readonly health: HealthModel;
    readonly periods: PeriodModel;
  };
  readonly keys: Pick<KeyService, 'list'>;
  /** `undefined` where usage is not counted. */
  readonly budgets: Pick<BudgetService, 'get'> | undefined;
  /** `undefined` without credits. */
  readonly credits: Pick<CreditService, 'balance' | 'balances'> | undefined;
  readonly options: Pick<ResolvedOptions, 'limits' | 'usage'>;
}

/** What the operator sees of all accounts. */
export type AdminService = AccountService;

/** Joins what the operator may ask about accounts. */
export function createAdminService({ models, keys, budgets, credits, options }: AdminServiceDeps): AdminService {
  const { webhooks, health: healths } = models;
  const shared = { keys: models.keys, webhooks, periods: options.usage ? models.periods : undefined };
  return createAccountService({
    listIds: createListAccountIds(shared),
    readSummaries: createReadSummaries({ ...shared, healths, credits }),
    readWebhooks: createReadWebhooks({ webhooks, healths }),
    keys,
    budgets,
    credits,
    limits: options.limits,
  });
}
