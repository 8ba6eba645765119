import type { Accounting } from '../accounting/accounting.ts';
import type { KeyService } from '../keys/service.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import type { SharedReads } from '../mongo/shared-reads.ts';
import type { Spec } from '../openapi/spec.ts';
import type { Metrics } from '../operator/metrics.ts';
import { UpstreamWindow } from '../operator/upstream-window.ts';
import type { ResolvedOptions } from '../options/options.ts';
import { usageHook } from '../proxy/hooks.ts';
import { createProxy, type ModelProxy } from '../proxy/proxy.ts';
import { RealtimeSecrets } from '../sockets/secrets.ts';
import { createSessionOperations } from '../sockets/session-calls.ts';
import { createBackgroundService } from '../stored/background.ts';
import { createListStored } from '../stored/overview.ts';
import { createStoredSecrets } from '../stored/secrets.ts';
import { createStoredObjects } from '../stored/service.ts';
import type { Sealer } from '../webhooks/secrets.ts';
import type { Models } from './collections.ts';

interface ModelCallsOptions {
  readonly spec: Spec;
  readonly keys: KeyService;
  readonly options: ResolvedOptions;
  readonly access: DatabaseAccess;
  readonly models: Pick<Models, 'stored'>;
  readonly metrics: Metrics;
  readonly accounting: Accounting;
  readonly sealer: Sealer;
  readonly shared: SharedReads;
}

/** The model endpoints, and what upstreams keep for an account. */
export function createModelCalls(deps: ModelCallsOptions) {
  const { options, access, models, metrics, accounting, sealer, shared, spec, keys } = deps;
  const { logger } = options;
  const { usage, admissionChecks } = accounting;
  const storedObjects = createStoredObjects({
    objects: models.stored,
    database: access,
    retentionDays: options.storedRetentionDays,
    background: { interval: options.backgroundPollInterval, timeout: options.backgroundTimeout },
    shared,
    logger,
  });
  const listStored = createListStored({ objects: models.stored, database: access });
  const onUsage = usageHook(options, logger);
  const backgroundResponses = createBackgroundService({
    objects: models.stored,
    database: access,
    collectionPrefix: options.collectionPrefix,
    pollResponse: (response) => proxy.pollResponse(response),
    ...(usage && { recordOnce: usage.recordOnce, dropOpen: usage.dropped }),
    onCounted(record) {
      metrics.models.usageCounted(record);
      onUsage?.(record);
    },
    interval: options.backgroundPollInterval,
    longestInterval: options.backgroundPollLimit,
    logger,
  });
  const upstreamWindow = new UpstreamWindow(options.upstreams.map(({ name }) => name));
  const proxy: ModelProxy = createProxy({
    upstreams: options.upstreams,
    logger,
    retry: { attempts: options.modelAttempts, maxWait: options.modelRetryWait },
    hooks: options,
    admissionChecks,
    ...(usage && { usageRecorder: usage }),
    observers: [metrics.models, upstreamWindow],
    storedObjects,
    backgroundResponses,
    exposeUpstream: options.exposeUpstream,
    maxFiles: options.maxFiles,
    maxFileBytes: options.maxFileBytes,
    idempotencySecret: sealer.derive('upstream idempotency keys'),
    abortOnDisconnect: options.abortOnDisconnect,
    propagateTrace: options.tracing.propagateToUpstreams === true,
  });
  const secrets = new RealtimeSecrets({
    stored: createStoredSecrets({ objects: models.stored, database: access }),
    principalOfKey: (id) => access.run(() => keys.authenticateById(id)),
  });
  const sessionOperations = createSessionOperations({ relaying: proxy.relaying, secrets, spec });
  return { secrets, sessionOperations, storedObjects, listStored, backgroundResponses, proxy, upstreamWindow };
}
