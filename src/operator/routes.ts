import type { components } from '../api.d.ts';
import { toBudgetBody } from '../http/budget-body.ts';
import type { OperationTable } from '../http/operation.ts';
import { toListed } from '../keys/routes.ts';
import type { RateLimits } from '../options/options.ts';
import { toDetailsBody, toHealthBody } from '../webhooks/routes.ts';
import type { AccountSummary } from './accounts.ts';
import type { ProcessInfo } from './model.ts';
import type { Backlog, ProcessService, UpstreamInfo } from './processes.ts';
import type { Refusal } from './refusals.ts';
import type { SearchResult } from './search.ts';
import type { AccountDetails, AdminService } from './service.ts';
import type { AccountWebhook } from './webhooks.ts';

type Schemas = components['schemas'];

export interface AdminRoutesDeps {
  readonly service: AdminService;
  /** Says in words what a failure's code means. */
  readonly explain: (code: string) => string;
}

function toSummaryBody(account: AccountSummary): Schemas['AccountSummary'] {
  const { apiKeys, webhooks, usage } = account;
  return {
    user_id: account.userId,
    api_keys: { ...apiKeys },
    webhooks: { ...webhooks },
    usage: usage && {
      requests: usage.requests,
      input_tokens: usage.inputTokens,
      output_tokens: usage.outputTokens,
      ...(usage.credits !== undefined && { credits: usage.credits }),
    },
    credits_remaining: account.creditsRemaining,
  };
}

function toLimitsBody(limits: RateLimits | null): Schemas['RateLimits'] | null {
  if (!limits) return null;
  const { requestsPerMinute = null, tokensPerMinute = null } = limits;
  return { requests_per_minute: requestsPerMinute, tokens_per_minute: tokensPerMinute };
}

function toRefusal({ hour, userId, code, count }: Refusal): Schemas['Refusal'] {
  return { hour: hour.toISOString(), user_id: userId, code, count };
}

function toFoundId({ type, id, userId, createdAt }: SearchResult): Schemas['SearchResult'] {
  return { type, id, user_id: userId, created_at: createdAt?.toISOString() ?? null };
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
        return { status: 200, body: { since: since.toISOString(), data: refusals.map(toRefusal), has_more: hasMore } };
      },
    },
    searchIds: {
      async handle({ query: { id } }) {
        return { status: 200, body: { data: (await service.search(id)).map(toFoundId) } };
      },
    },
  } satisfies Partial<OperationTable>;
}

function toProcess(info: ProcessInfo): Schemas['GatewayProcess'] {
  const { id, hostname, pid, version, role } = info;
  return {
    id,
    hostname,
    pid,
    version,
    role,
    started_at: info.startedAt.toISOString(),
    seen_at: info.seenAt.toISOString(),
    is_live: info.isLive,
    event_loop_lag_seconds: info.eventLoopLag,
    attempts_in_progress: info.attempts,
    relayed_calls_in_progress: info.relayedCalls,
    last_sweep_at: info.lastSweepAt?.toISOString() ?? null,
    clock_skew_seconds: info.clockSkew,
  };
}

function toUpstream(info: UpstreamInfo): Schemas['UpstreamStatus'] {
  const { name, processes, breaker, requests, errors, errorCodes, latency, timeToFirstByte, since } = info;
  return {
    name,
    processes,
    breaker: { ...breaker },
    requests,
    errors,
    error_codes: { ...errorCodes },
    latency_seconds: { ...latency },
    time_to_first_byte_seconds: { ...timeToFirstByte },
    since: since.toISOString(),
  };
}

function toBacklog(backlog: Backlog): Schemas['Backlog'] {
  return {
    due: backlog.due,
    due_is_more: backlog.dueIsMore,
    oldest_due_at: backlog.oldestDueAt?.toISOString() ?? null,
    oldest_due_seconds: backlog.oldestDueSeconds,
    scheduled: backlog.scheduled,
    scheduled_is_more: backlog.scheduledIsMore,
    fan_outs_pending: backlog.fanOutsPending,
    fan_outs_is_more: backlog.fanOutsIsMore,
    oldest_fan_out_seconds: backlog.oldestFanOutSeconds,
    in_progress: backlog.inProgress,
  };
}

/** The operations that show all processes, with the scope `admin`. */
export function processOperations(service: ProcessService) {
  return {
    listProcesses: {
      handle: async () => ({ status: 200, body: { data: (await service.processes()).map(toProcess) } }),
    },
    listUpstreams: {
      handle: async () => ({ status: 200, body: { data: (await service.upstreams()).map(toUpstream) } }),
    },
    retrieveBacklog: { handle: async () => ({ status: 200, body: toBacklog(await service.backlog()) }) },
  } satisfies Partial<OperationTable>;
}
