import { resolveOptions } from '../../options/options.ts';
import { accountOptions, namingVariable } from './account-options.ts';
import type { Settings } from './environment.ts';
import { omitUndefined } from './omit-undefined.ts';

function tracingOf(settings: Settings) {
  const tracing = omitUndefined({
    propagateToUpstreams: settings.PROPAGATE_TRACES_TO_UPSTREAMS,
    propagateToReceivers: settings.PROPAGATE_TRACES_TO_RECEIVERS,
  });
  return Object.keys(tracing).length > 0 ? tracing : undefined;
}

/** The options that the environment sets, by the names that the package gives them. */
export function gatewayOptions(settings: Settings) {
  return omitUndefined({
    abortOnDisconnect: settings.ABORT_ON_DISCONNECT,
    retryDelays: settings.RETRY_DELAYS,
    honorRetryAfter: settings.HONOR_RETRY_AFTER,
    attemptTimeout: settings.ATTEMPT_TIMEOUT,
    concurrency: settings.CONCURRENCY,
    concurrencyPerAccount: settings.CONCURRENCY_PER_ACCOUNT,
    concurrencyPerWebhook: settings.CONCURRENCY_PER_WEBHOOK,
    changeStreams: settings.CHANGE_STREAMS,
    drainTimeout: settings.DRAIN_TIMEOUT,
    recoverRate: settings.RECOVER_RATE,
    disableAfterDays: settings.DISABLE_AFTER_DAYS,
    disableOnGone: settings.DISABLE_ON_GONE,
    maxWebhooks: settings.MAX_WEBHOOKS,
    managementRateLimit: settings.MANAGEMENT_RATE_LIMIT,
    readRateLimit: settings.READ_RATE_LIMIT,
    retentionDays: settings.RETENTION_DAYS,
    storedRetentionDays: settings.STORED_RETENTION_DAYS,
    backgroundPollInterval: settings.BACKGROUND_POLL_INTERVAL,
    backgroundPollLimit: settings.BACKGROUND_POLL_LIMIT,
    backgroundTimeout: settings.BACKGROUND_TIMEOUT,
    serveOpenApi: settings.SERVE_OPENAPI,
    collectionPrefix: settings.COLLECTION_PREFIX,
    indexes: settings.INDEXES,
    keyGracePeriod: settings.KEY_GRACE_PERIOD,
    usageBacklog: settings.USAGE_BACKLOG,
    bodyMemory: settings.BODY_MEMORY,
    tracing: tracingOf(settings),
    ...accountOptions(settings),
  });
}

/**
 * Holds the options against the package's own rules, such as those for JSON in a variable or for two options together.
 * @throws GatewayError `invalid_options`; `param` is the variable
 */
export function checkOptions(settings: Settings): void {
  try {
    resolveOptions({ ...gatewayOptions(settings), mongo: 'checked elsewhere', secretKeys: ['checked elsewhere'] });
  } catch (error) {
    throw namingVariable(error);
  }
}
