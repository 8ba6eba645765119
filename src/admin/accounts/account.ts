import type { ApiKey } from '../../keys/api-key.ts';
import type { BudgetUsage } from '../../options/budgets.ts';
import type { RateLimits } from '../../options/options.ts';
import type { HealthState } from '../../webhooks/health/health-state.ts';
import type { HealthDocument } from '../../webhooks/health/model.ts';
import type { WebhookDetails } from '../../webhooks/webhook.ts';
import type { RefusalCount } from '../refusals/list.ts';

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

/** A webhook with its health. */
export interface AccountWebhook extends WebhookDetails {
  readonly health: Readonly<
    Pick<HealthDocument, 'lastSuccessAt' | 'lastFailure' | 'failingSince' | 'failures'> & { state: HealthState }
  >;
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
