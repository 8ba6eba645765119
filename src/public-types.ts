export type { ExceededReport } from './accounting/limits/service.ts';
export type { UsageLine, UsageQuery, UsageReport } from './accounting/usage/report.ts';
export type { AccountDetails, AccountSummary, AccountUsage, AccountWebhook } from './admin/accounts/account.ts';
export type { AccountPage } from './admin/accounts/service.ts';
export type { FailingWebhooksPage } from './admin/failing-webhooks.ts';
export type { Refusal, RefusalCount, RefusalQuery, RefusalReport } from './admin/refusals/list.ts';
export type { SearchResult, SearchResultType } from './admin/search.ts';
export type { FailedDelivery } from './deliveries/claims.ts';
export type { Delivery } from './deliveries/history.ts';
export type { ErrorBody, ErrorCode } from './errors.ts';
export type { PastEvent } from './events/history.ts';
export type { EventInput, PublishedEvent, PublishOptions } from './events/service.ts';
export type { CheckResult, GatewayHealth } from './gateway/health/gateway-health.ts';
export type { GatewayNotifications, NotificationListener } from './gateway/notifications.ts';
export type { ModelGateway } from './gateway.ts';
export type { HardenOptions } from './http/harden-server.ts';
export type { Principal, Scope } from './http/principal.ts';
export type { ApiKey, ApiKeyInput, ApiKeyPatch, NewApiKey } from './keys/api-key.ts';
export type { Budget, BudgetUsage } from './options/accounts/budgets.ts';
export type {
  CreditOptions,
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
  UpstreamOptions,
  UpstreamTimeouts,
  UsageRecord,
} from './options/options.ts';
export type { DisabledWebhook } from './options/webhooks/disabling.ts';
export type { ProcessRole } from './processes/model.ts';
export type { Backlog, Percentiles, ProcessInfo, UpstreamInfo } from './processes/service.ts';
export type { Filters, FilterValue } from './webhooks/filters.ts';
export type { Metadata } from './webhooks/metadata.ts';
export type { Resealed } from './webhooks/secrets/resealing.ts';
export type {
  MadeSecret,
  NewWebhook,
  SecretChange,
  Webhook,
  WebhookDetails,
  WebhookPatch,
} from './webhooks/webhook.ts';

/** The types that the package exports; the values are in index.ts. */
