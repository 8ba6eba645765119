import type { components, operations } from '../../../api.d.ts';

type Schemas = components['schemas'];

/** Who is signed in, as `GET session` tells. */
export interface Session {
  readonly user_id: string;
  readonly scopes: readonly string[];
  readonly via: 'key' | 'session';
  /** The only models it may call; `null` for any. */
  readonly models: readonly string[] | null;
  /** Whether its key has budgets: then it cannot get around them by another key, nor change any. */
  readonly has_budgets: boolean;
  /** When its key expires; `null` for never. */
  readonly expires_at: string | null;
}

/** As `GET errors.json` describes it. */
export type { DescribedCode } from '../../../openapi/described-code.ts';

export type WebhookSummary = Schemas['WebhookSummary'];
export type Webhook = Schemas['WebhookDetails'];
export type WebhookCreate = Schemas['WebhookCreate'];
export type WebhookUpdate = Schemas['WebhookUpdate'];
export type Stats = Schemas['WebhookStats'];
export type StatsHour = Schemas['WebhookStatsHour'];
export type Recovery = Schemas['Recovery'];
export type RecoverBody = operations['recoverWebhook']['requestBody']['content']['application/json'];

export type EventType = Schemas['EventTypeDescription'];
export type EventState = Schemas['EventState'];
export type PastEvent = Schemas['PastEvent'];

export type Delivery = Schemas['DeliverySummary'];
export type DeliveryDetails = Schemas['DeliveryDetails'];
export type Attempt = Schemas['DeliveryAttempt'];

export type AccountSummary = Schemas['AccountSummary'];
export type AccountDetails = Schemas['AccountDetails'];
export type AccountWebhook = Schemas['AccountWebhook'];
export type RateLimits = Schemas['RateLimits'];
export type GatewayProcess = Schemas['GatewayProcess'];
export type UpstreamStatus = Schemas['UpstreamStatus'];
export type Refusal = Schemas['Refusal'];
export type RefusalCount = Schemas['RefusalCount'];
export type SearchResult = Schemas['SearchResult'];

export type UsageLine = Schemas['UsageLine'];

export type StoredObjectKind = Schemas['StoredObjectKind'];
export type StoredObject = Schemas['StoredObject'];
export type StoredObjectTotal = Schemas['StoredObjectTotal'];

export type Budget = Schemas['Budget'];
export type BudgetUsage = Schemas['BudgetUsage'];

export type ApiKey = Schemas['ApiKey'];
export type NewApiKey = Schemas['ApiKeyCreated'];
