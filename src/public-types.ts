export type { ExceededReport } from './accounting/limits.ts';
export type { UsageLine, UsageQuery, UsageReport } from './accounting/report.ts';
export type { FailedDelivery } from './deliveries/claims.ts';
export type { Delivery } from './deliveries/history.ts';
export type { ErrorBody, ErrorCode } from './errors.ts';
export type { PastEvent } from './events/history.ts';
export type { EventInput, PublishedEvent, PublishOptions } from './events/service.ts';
export type { CheckResult, GatewayHealth } from './gateway/health/gateway-health.ts';
export type { GatewayNotifications, NotificationListener } from './gateway/notifications.ts';
export type { ModelGateway } from './gateway.ts';
export type { ApiKey, ApiKeyInput, ApiKeyPatch, NewApiKey } from './keys/api-key.ts';
export type { AccountSummary, AccountUsage } from './operator/accounts.ts';
export type { ProcessInfo, ProcessRole } from './operator/model.ts';
export type { Backlog, Percentiles, UpstreamInfo } from './operator/processes.ts';
export type { Refusal, RefusalCount, RefusalQuery, RefusalReport } from './operator/refusals.ts';
export type { SearchResult, SearchResultType } from './operator/search.ts';
export type { AccountDetails, AccountPage } from './operator/service.ts';
export type { AccountWebhook, FailingWebhooksPage } from './operator/webhooks.ts';
export type { Budget, BudgetUsage } from './options/budgets.ts';
export type {
  CreditOptions,
  EndpointOptions,
  EventTypeOptions,
  LimitOptions,
  Logger,
  ModelAnswer,
  ModelCall,
  ModelGatewayOptions,
  ModelHooks,
  Quota,
  QuotaOptions,
  RateLimits,
  RateLimitsFor,
  StoredUsage,
  UpstreamOptions,
  UpstreamTimeouts,
  UsageRecord,
} from './options/options.ts';
export type { Principal, Scope } from './options/principal.ts';
export type { DisabledWebhook } from './options/webhooks.ts';
export type { Filters, FilterValue, Metadata } from './webhooks/optional-fields.ts';
export type { Resealed } from './webhooks/secrets.ts';
export type {
  MadeSecret,
  NewWebhook,
  SecretChange,
  Webhook,
  WebhookDetails,
  WebhookPatch,
} from './webhooks/webhook.ts';

/** The types that the package exports; the values are in index.ts. */
