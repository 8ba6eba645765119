import { type Accounting, createAccounting } from '../accounting/accounting.ts';
import { RecoveryService } from '../deliveries/recoveries.ts';
import { createDeliveryService } from '../deliveries/service.ts';
import { addCustomEventTypes, catalogueOf } from '../events/catalogue.ts';
import { createEventHistory } from '../events/history.ts';
import { createOutbox, createSettleSubscribers } from '../events/outbox.ts';
import { createEventService } from '../events/service.ts';
import { AccountMemory } from '../fairness/account-shares.ts';
import { type Authenticator, byApiKey, checkedAuthenticate, createAuthenticator } from '../http/authentication.ts';
import { OpenRequests } from '../http/request.ts';
import { addEndpoints } from '../http/validation/own-endpoints.ts';
import { createKeyService, type KeyService } from '../keys/service.ts';
import { type AuthenticateKey, createAuthenticateKey } from '../keys/verify-key.ts';
import { createDatabaseClock } from '../mongo/clock.ts';
import {
  type DatabaseAccess,
  type RunInTransaction,
  undoneSoon,
  whileAwaited,
} from '../mongo/connection/availability.ts';
import type { Database } from '../mongo/connection/connection.ts';
import { sharedSpec } from '../openapi/spec.ts';
import { BacklogReads } from '../operator/backlog.ts';
import { createMetrics } from '../operator/metrics.ts';
import { createProcessRecord } from '../operator/process-record.ts';
import { createProcessService } from '../operator/processes.ts';
import { createRefusalRecorder } from '../operator/refusals.ts';
import { createAdminService } from '../operator/service.ts';
import { UpstreamWindow } from '../operator/upstream-window.ts';
import type { Fixed } from '../options/fixed.ts';
import type { ResolvedOptions } from '../options/options.ts';
import { isAllowedAddress, parseNetworks } from '../outbound/addresses.ts';
import { usageHook } from '../proxy/hooks.ts';
import { createProxy } from '../proxy/proxy.ts';
import { createRetryPolicy } from '../proxy/retry.ts';
import { createUpstream } from '../proxy/upstream.ts';
import { RealtimeSecrets } from '../sockets/secrets.ts';
import { createSessionOperations } from '../sockets/session-calls.ts';
import { BackgroundService } from '../stored/background.ts';
import { createCallStorage } from '../stored/call-storage.ts';
import { createStoredRelay, storedOperations } from '../stored/calls.ts';
import { createPollResponse } from '../stored/ended-response.ts';
import { createStoredList } from '../stored/list.ts';
import { createListStored } from '../stored/overview.ts';
import { createStoredSecrets } from '../stored/secrets.ts';
import { StoredObjectRecords } from '../stored/service.ts';
import { readVersion } from '../version.ts';
import { createHealthService } from '../webhooks/health.ts';
import { createDisableFailing, createReportChanges } from '../webhooks/health-changes.ts';
import { createSealer, type Sealer } from '../webhooks/secrets.ts';
import { createWebhookService } from '../webhooks/service.ts';
import { createModels } from './collections.ts';
import { Notifications } from './notifications.ts';
import { createRequestLog } from './request-log.ts';

/** The database, and whether it can be reached at present. */
export type OpenDatabase = Database & {
  readonly access: DatabaseAccess;
  /** Whether it is a replica set. */
  readonly hasTransactions: boolean;
};

/** What services are made of. */
function createBase(options: ResolvedOptions, fixed: Fixed, database: OpenDatabase) {
  const { connection, access } = database;
  const { logger } = options;
  const { allowPrivateNetworks } = options;
  const spec = addEndpoints(addCustomEventTypes(sharedSpec(), options.eventTypes), options.endpoints);
  const networks = parseNetworks(allowPrivateNetworks);
  if (networks.length > 0) logger.warn('webhooks may reach networks that are not public', { allowPrivateNetworks });
  return {
    options,
    fixed,
    database,
    access,
    spec,
    catalogue: catalogueOf(spec),
    models: createModels(connection, options.collectionPrefix),
    notifications: new Notifications(logger),
    metrics: createMetrics(),
    requestLog: options.logRequests ? createRequestLog(logger) : undefined,
    openRequests: new OpenRequests(),
    bodyMemory: new AccountMemory(options.limits.bodyMemory),
    clock: createDatabaseClock(connection),
    networks,
  };
}

type Base = ReturnType<typeof createBase>;

function createWebhooks({ options, models, catalogue, notifications, networks }: Base) {
  const { logger } = options;
  const sealer = createSealer(options.secretKeys);
  const webhooks = createWebhookService({
    webhooks: models.webhooks,
    sealer,
    catalogueTypes: catalogue.types,
    rules: { allowHttp: options.allowHttp, networks },
    maxWebhooks: options.limits.webhooks,
  });
  const health = createHealthService({
    tallies: models.tallies,
    healths: models.health,
    reportChanges: createReportChanges({
      healths: models.health,
      find: webhooks.byIds,
      onFailing: (webhook) => notifications.emit('webhook.failing', webhook),
      onRecovered: (webhook) => notifications.emit('webhook.recovered', webhook),
      logger,
    }),
    disableFailing: createDisableFailing({
      healths: models.health,
      webhooks,
      onDisabled: (webhook) => notifications.emit('webhook.disabled', webhook),
      options: options.deliveries,
      logger,
    }),
    interval: 1_000,
    logger,
  });
  return { sealer, webhooks, health };
}

function createEvents(base: Base, { webhooks, health }: ReturnType<typeof createWebhooks>) {
  const { options, fixed, database, access, models, catalogue, notifications, metrics, requestLog, networks, clock } =
    base;
  const { connection } = database;
  const { logger, collectionPrefix, tracing } = options;
  const settleSubscribers = createSettleSubscribers(models.events, webhooks.confirmedSubscribers);
  const outbox = createOutbox(models.events, clock);
  const deliveries = createDeliveryService({
    connection,
    deliveries: models.deliveries,
    sendRates: models.sendRates,
    events: models.events,
    outbox,
    clock,
    settleSubscribers,
    forDelivery: webhooks.forDelivery,
    urlOf: webhooks.urlOf,
    clients: {
      allowHttp: options.allowHttp,
      allowAddress: (address) => isAllowedAddress(address, networks),
      proxy: options.deliveries.proxy,
    },
    options: { ...options.deliveries, retryDelays: options.retryDelays, collectionPrefix, tracing, logger },
    userAgent: `express-model-gateway/${readVersion()}`,
    onAttempt(attempt) {
      health.record(attempt);
      metrics.deliveries.attempted(attempt);
      requestLog?.attempted(attempt);
    },
    fanOutObserver: metrics.deliveries,
    onFailed: (delivery) => notifications.emit('delivery.failed', delivery),
    onEnded: metrics.deliveries.ended,
    onSwept: metrics.deliveries.swept,
  });
  const events = createEventService({
    connection,
    outbox,
    owners: models.owners,
    catalogue,
    webhooks,
    settleSubscribers,
    fanOut: deliveries.fanOut,
    database: access,
    logger: options.logger,
  });
  const recoveries = new RecoveryService({
    recoveries: models.recoveries,
    find: deliveries.recoverable,
    redeliver: deliveries.redeliver,
    webhook: webhooks.getConfirmed,
    rate: fixed.recoverRate,
    options: { ...options.deliveries, logger },
  });
  return { deliveries, events, recoveries };
}

function createKeys(
  { options, models }: Base,
  { publish }: ReturnType<typeof createEvents>['events'],
  transaction: RunInTransaction,
  { budgets }: Accounting,
) {
  return createKeyService({
    keys: models.keys,
    maxKeys: options.limits.apiKeys,
    gracePeriod: options.modelCalls.keyGracePeriod,
    publish,
    transaction,
    ...(budgets && { budgets: budgets.ofKeys }),
    accountBudgets: models.accountBudgets.collection.collectionName,
    onLastUsedLost: (error) =>
      options.logger.warn('the last use of API keys was not written', { reason: String(error) }),
  });
}

/**
 * Says who makes requests, by the host's functions or by the gateway's own keys.
 * @param authenticateKey says whose an API key of the gateway's own is
 */
function authenticatorOf(options: ResolvedOptions, authenticateKey: AuthenticateKey): Authenticator {
  const { dashboard } = options;
  return createAuthenticator({
    byKey: options.authenticate ? checkedAuthenticate('authenticate', options.authenticate) : byApiKey(authenticateKey),
    bySession: dashboard?.authenticate && checkedAuthenticate('dashboard.authenticate', dashboard.authenticate),
  });
}

/** How many times as long as the first the wait between two polls of a background response becomes: a minute, of the two seconds by default. */
const slowestPolls = 30;

/** The upstreams, what they keep for accounts, and what they still work on. */
function createStorage({ options, fixed, access, models, metrics }: Base, { usage }: Accounting) {
  const { logger } = options;
  const storedObjects = new StoredObjectRecords({
    objects: models.stored,
    database: access,
    retentionDays: fixed.storedRetentionDays,
    background: { interval: options.background.pollInterval, timeout: options.background.timeout },
    logger,
  });
  const upstreams = options.upstreams.map((upstream) =>
    createUpstream({ ...upstream, proxy: upstream.proxy ?? options.proxy ?? false }),
  );
  const retry = createRetryPolicy({ attempts: options.modelCalls.attempts });
  const onUsage = usageHook(options, logger);
  const backgroundResponses = new BackgroundService({
    objects: models.stored,
    database: access,
    pollResponse: createPollResponse({ upstreams, retry, storedObjects }),
    ...(usage && { recordOnce: usage.recordOnce, dropOpen: usage.dropped }),
    onCounted(record) {
      metrics.models.usageCounted(record);
      onUsage?.(record);
    },
    interval: options.background.pollInterval,
    longestInterval: slowestPolls * options.background.pollInterval,
    logger,
  });
  const listStored = createListStored(models.stored, access);
  return { upstreams, retry, storedObjects, backgroundResponses, listStored };
}

/** The model endpoints, and the calls about what upstreams keep. */
function createModelCalls(base: Base, sealer: Sealer, accounting: Accounting, keys: KeyService) {
  const { options, access, models, metrics, spec } = base;
  const { usage, admissionChecks } = accounting;
  const storage = createStorage(base, accounting);
  const { upstreams, retry, storedObjects, backgroundResponses } = storage;
  const upstreamWindow = new UpstreamWindow(options.upstreams.map(({ name }) => name));
  const proxy = createProxy({
    upstreams,
    endpoints: options.endpoints,
    logger: options.logger,
    retry,
    hooks: options,
    admissionChecks,
    ...(usage && { usageRecorder: usage }),
    observers: [metrics.models, upstreamWindow],
    storage: createCallStorage(storedObjects),
    backgroundResponses,
    ...options.modelCalls,
    idempotencySecret: sealer.derive('upstream idempotency keys'),
    propagateTrace: options.tracing.propagateToUpstreams,
  });
  const secrets = new RealtimeSecrets({
    stored: createStoredSecrets({ objects: models.stored, database: access }),
    principalOfKey: (id) => access.run(() => keys.authenticateById(id)),
  });
  const { files: maxFiles, fileBytes: maxFileBytes } = options.limits;
  const storing = { ...proxy.calling, upstreams, storedObjects, backgroundResponses, maxFiles, maxFileBytes };
  const sessions = { ...proxy.relaying, storedObjects };
  return {
    secrets,
    sessions,
    modelOperations: {
      ...proxy.operations,
      ...storedOperations({
        relay: proxy.tracked(createStoredRelay(storing)),
        list: proxy.tracked(createStoredList(storing)),
      }),
      ...createSessionOperations({ relaying: sessions, secrets, spec }),
    },
    ...storage,
    proxy,
    upstreamWindow,
  };
}

/** Every service of a gateway, and how they are joined. */
export function createServices(options: ResolvedOptions, fixed: Fixed, database: OpenDatabase) {
  const base = createBase(options, fixed, database);
  const { access, models, metrics, clock, requestLog } = base;
  const ofWebhooks = createWebhooks(base);
  const { deliveries, events, recoveries } = createEvents(base, ofWebhooks);
  // a standalone mongod, which the host has accepted, writes one after the other
  const transaction: RunInTransaction = database.hasTransactions ? events.transaction : (fn) => fn(undefined);
  const accounting = createAccounting({
    models,
    publish: events.publish,
    transaction: undoneSoon(transaction),
    database: access,
    clock,
    creditObserver: metrics.credits,
    options,
    fixed,
  });
  const { budgets, credits } = accounting;
  const keys = createKeys(base, events, whileAwaited(transaction), accounting);
  const authenticateKey = createAuthenticateKey(keys, access);
  const modelCalls = createModelCalls(base, ofWebhooks.sealer, accounting, keys);
  const { proxy, upstreamWindow } = modelCalls;
  const { processes } = models;
  const backlog = new BacklogReads(models.deliveries, models.events);
  const refusals = createRefusalRecorder(models.refusals, options.logger);
  return {
    ...base,
    ...ofWebhooks,
    deliveries,
    events,
    eventHistory: createEventHistory(models.events, deliveries.eventStatuses),
    recoveries,
    accounting,
    keys,
    authenticateKey,
    authenticator: authenticatorOf(options, authenticateKey),
    ...modelCalls,
    backlog,
    processRecord: createProcessRecord({
      processes,
      access,
      deliveries,
      proxy,
      upstreamWindow,
      options,
      interval: fixed.processInterval,
    }),
    processes: createProcessService(processes, backlog),
    admin: createAdminService({ models, keys, budgets, credits, options }),
    refusals,
    /** Told of each request that has ended. */
    requestObservers: [metrics.requests, refusals, ...(requestLog ? [requestLog] : [])],
  };
}

export type Services = ReturnType<typeof createServices>;
