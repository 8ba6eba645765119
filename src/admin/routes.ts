import type { components } from '../api.d.ts';
import { toBudgetBody } from '../http/budget-body.ts';
import type { OperationTable } from '../http/operation.ts';
import { toListed } from '../keys/routes.ts';
import type { RateLimits } from '../options/options.ts';
import { toHealthBody } from '../webhooks/health/routes.ts';
import { toDetailsBody } from '../webhooks/routes.ts';
import type { AccountDetails, AccountSummary, AccountWebhook } from './accounts/account.ts';
import type { AdminService } from './service.ts';

type Schemas = components['schemas'];

export interface AdminRoutesDeps {
  readonly service: AdminService;
  /** Says in words what a failure's code means. */
  readonly explain: (code: string) => string;
}

function toSummaryBody({
  userId,
  apiKeys,
  webhooks,
  usage,
  creditsRemaining,
}: AccountSummary): Schemas['AccountSummary'] {
  return {
    user_id: userId,
    api_keys: { ...apiKeys },
    webhooks: { ...webhooks },
    usage: usage && {
      requests: usage.requests,
      input_tokens: usage.inputTokens,
      output_tokens: usage.outputTokens,
      ...(usage.credits !== undefined && { credits: usage.credits }),
    },
    credits_remaining: creditsRemaining,
  };
}

function toLimitsBody(limits: RateLimits | null): Schemas['RateLimits'] | null {
  return (
    limits && {
      requests_per_minute: limits.requestsPerMinute ?? null,
      tokens_per_minute: limits.tokensPerMinute ?? null,
    }
  );
}

/** The operations of the operator on all accounts. */
export function adminOperations({ service, explain }: AdminRoutesDeps) {
  function toWebhookBody({ health, ...webhook }: AccountWebhook): Schemas['AccountWebhook'] {
    const body = toDetailsBody(webhook, toHealthBody(health, explain, Date.now()));
    return { ...body, user_id: webhook.userId };
  }

  function toAccountBody({ account, apiKeys, webhooks, budgets, credits, rateLimits, refusals }: AccountDetails) {
    return {
      account: toSummaryBody(account),
      api_keys: { data: apiKeys.keys.map(toListed), has_more: apiKeys.hasMore },
      webhooks: webhooks.map(toWebhookBody),
      budgets: budgets?.map(toBudgetBody) ?? null,
      credits: credits && { credits_remaining: credits.creditsRemaining, low_threshold: credits.lowThreshold },
      rate_limits: {
        per_user: toLimitsBody(rateLimits.perUser),
        per_user_is_unknown: rateLimits.perUserIsUnknown,
        per_key: toLimitsBody(rateLimits.perKey),
        per_key_is_unknown: rateLimits.perKeyIsUnknown,
      },
      refusals: refusals.map(({ code, count }) => ({ code, count })),
    } satisfies Schemas['AccountDetails'];
  }

  return {
    listAccounts: {
      async handle({ query }) {
        const { accounts, hasMore } = await service.accounts(query);
        return { status: 200, body: { data: accounts.map(toSummaryBody), has_more: hasMore } };
      },
    },
    retrieveAccount: {
      async handle({ params: { user_id } }) {
        return { status: 200, body: toAccountBody(await service.account(user_id)) };
      },
    },
    listFailingWebhooks: {
      async handle({ query }) {
        const { webhooks, hasMore } = await service.failingWebhooks(query);
        return { status: 200, body: { data: webhooks.map(toWebhookBody), has_more: hasMore } };
      },
    },
    listRefusals: {
      async handle({ query: { hours, user_id } }) {
        const { since, refusals, hasMore } = await service.refusals({
          ...(hours !== undefined && { hours }),
          ...(user_id !== undefined && { userId: user_id }),
        });
        const data = refusals.map(({ hour, userId, code, count }) => ({
          hour: hour.toISOString(),
          user_id: userId,
          code,
          count,
        }));
        return { status: 200, body: { since: since.toISOString(), data, has_more: hasMore } };
      },
    },
    searchIds: {
      async handle({ query: { id } }) {
        const data = (await service.search(id)).map(({ type, id, userId, createdAt }) => ({
          type,
          id,
          user_id: userId,
          created_at: createdAt?.toISOString() ?? null,
        }));
        return { status: 200, body: { data } };
      },
    },
  } satisfies Partial<OperationTable>;
}
