import { type Accounting, createAccounting } from '../accounting/accounting.ts';
import { RecoveryService } from '../deliveries/recoveries.ts';
import { createDeliveryService } from '../deliveries/service.ts';
import { addCustomEventTypes, type Catalogue, catalogueOf } from '../events/catalogue.ts';
import { createEventHistory } from '../events/history.ts';
import { createOutbox, createSettleSubscribers } from '../events/outbox.ts';
import { createEventService } from '../events/service.ts';
import { createKeyService } from '../keys/service.ts';
import { createDatabaseClock, type DatabaseClock } from '../mongo/clock.ts';
import { type DatabaseAccess, type RunInTransaction, whileAwaited } from '../mongo/connection/availability.ts';
import type { Database } from '../mongo/connection/connection.ts';
import { SharedReads } from '../mongo/shared-reads.ts';
import { sharedSpec } from '../openapi/spec.ts';
import { BacklogReads } from '../operator/backlog.ts';
import { createMetrics, type Metrics } from '../operator/metrics.ts';
import { createProcessRecord } from '../operator/process-record.ts';
import { createProcessService } from '../operator/processes.ts';
import { createRefusalRecorder } from '../operator/refusals.ts';
import { createAdminService } from '../operator/service.ts';
import type { ResolvedOptions } from '../options/options.ts';
import { isAllowedAddress, type Networks, parseNetworks } from '../outbound/addresses.ts';
import { readVersion } from '../version.ts';
import { createHealthService } from '../webhooks/health.ts';
import { createDisableFailing, createReportChanges } from '../webhooks/health-changes.ts';
import { createSealer } from '../webhooks/secrets.ts';
import { createWebhookService } from '../webhooks/service.ts';
import { createModels, type Models } from './collections.ts';
import { createModelCalls } from './model-calls.ts';
import { Notifications } from './notifications.ts';
import { createRequestLog, type RequestLog } from './request-log.ts';

/** The database, and whether it can be reached at present. */
export type OpenDatabase = Database & {
  readonly access: DatabaseAccess;
  /** Whether it is a replica set. */
  readonly hasTransactions: boolean;
};

interface Base {
  readonly options: ResolvedOptions;
  readonly database: OpenDatabase;
  readonly models: Models;
  readonly catalogue: Catalogue;
  readonly notifications: Notifications;
  readonly metrics: Metrics;
  readonly requestLog: RequestLog | undefined;
  readonly shared: SharedReads;
  readonly networks: Networks;
  readonly clock: DatabaseClock;
}

function allowedNetworks({ allowPrivateNetworks, logger }: ResolvedOptions): Networks {
  const networks = parseNetworks(allowPrivateNetworks);
  if (networks.length > 0) logger.warn('webhooks may reach networks that are not public', { allowPrivateNetworks });
  return networks;
}

function createWebhooks({ options, models, catalogue, notifications, networks }: Base) {
  const { logger } = options;
  const sealer = createSealer(options.secretKeys);
  const webhooks = createWebhookService({
    webhooks: models.webhooks,
    sealer,
    catalogueTypes: catalogue.types,
    rules: { allowHttp: options.allowHttp, networks },
    maxWebhooks: options.maxWebhooks,
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
      options,
      logger,
    }),
    interval: 1_000,
    logger,
  });
  return { sealer, webhooks, health };
}

function createEvents(base: Base, { webhooks, health }: ReturnType<typeof createWebhooks>) {
  const { options, models, catalogue, notifications, metrics, requestLog, shared, networks, clock } = base;
  const { connection, access } = base.database;
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
    shared,
    forDelivery: webhooks.forDelivery,
    urlOf: webhooks.urlOf,
    clients: { allowHttp: options.allowHttp, allowAddress: (address) => isAllowedAddress(address, networks) },
    options,
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
    shared,
    options,
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
    maxKeys: options.maxApiKeys,
    gracePeriod: options.keyGracePeriod,
    publish,
    transaction,
    ...(budgets && { budgets: budgets.ofKeys }),
    accountBudgets: models.accountBudgets.collection.collectionName,
    onLastUsedLost: (error) =>
      options.logger.warn('the last use of API keys was not written', { reason: String(error) }),
  });
}

/** Every service of a gateway, and how they are joined. */
export function createServices(options: ResolvedOptions, database: OpenDatabase) {
  const spec = addCustomEventTypes(sharedSpec(), options.eventTypes);
  const catalogue = catalogueOf(spec);
  const models = createModels(database.connection, options.collectionPrefix);
  const notifications = new Notifications(options.logger);
  const metrics = createMetrics();
  const requestLog = options.logRequests ? createRequestLog(options.logger) : undefined;
  const shared = new SharedReads(database.connection);
  const networks = allowedNetworks(options);
  const clock = createDatabaseClock(database.connection);
  const base = { options, database, models, catalogue, notifications, metrics, requestLog, shared, networks, clock };
  const ofWebhooks = createWebhooks(base);
  const { sealer, webhooks, health } = ofWebhooks;
  const { deliveries, events, recoveries } = createEvents(base, ofWebhooks);
  // a standalone mongod, which the host has accepted, writes one after the other
  const transaction: RunInTransaction = database.hasTransactions ? events.transaction : (fn) => fn(undefined);
  const accounting = createAccounting({
    models,
    publish: events.publish,
    transaction,
    database: database.access,
    clock,
    creditObserver: metrics.credits,
    shared,
    options,
  });
  const keys = createKeys(base, events, whileAwaited(transaction), accounting);
  const { access } = database;
  const modelCalls = createModelCalls({ options, access, models, metrics, accounting, sealer, shared, spec, keys });
  const processRecord = createProcessRecord({
    processes: models.processes,
    connection: database.connection,
    access: database.access,
    deliveries,
    ...modelCalls,
    options,
  });
  const backlog = new BacklogReads(models.deliveries, models.events);
  const processes = createProcessService(models.processes, backlog);
  const admin = createAdminService({ models, keys, budgets: accounting.budgets, credits: accounting.credits, options });
  const refusals = createRefusalRecorder({ refusals: models.refusals, interval: 1_000, logger: options.logger });
  const eventHistory = createEventHistory(models.events, deliveries.eventStatuses);
  return {
    spec,
    catalogue,
    models,
    metrics,
    requestLog,
    webhooks,
    health,
    backlog,
    deliveries,
    events,
    eventHistory,
    recoveries,
    keys,
    accounting,
    admin,
    refusals,
    processRecord,
    processes,
    shared,
    ...modelCalls,
    notifications,
  };
}

export type Services = ReturnType<typeof createServices>;
