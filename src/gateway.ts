import { createAccounting } from './accounting/accounting.ts';
import { createModels } from './collections.ts';
import { addDashboard } from './dashboard/dashboard.ts';
import { explain } from './deliveries/body.ts';
import { createRecoveryService } from './deliveries/redeliver/recoveries/service.ts';
import { createSendTest } from './deliveries/redeliver/test-event.ts';
import { createDeliveryService } from './deliveries/service.ts';
import { addEventTypes } from './events/catalogue/add-event-types.ts';
import { createCatalogue } from './events/catalogue/catalogue.ts';
import { createEventHistory } from './events/history.ts';
import { createEventService } from './events/service.ts';
import { createOutbox } from './events/store/outbox.ts';
import { createSettleSubscribers } from './events/store/settle-subscribers.ts';
import { createInFlightLimit } from './fairness/in-flight-limit.ts';
import { createReadLimit, createWriteLimit } from './http/account-limits.ts';
import { createApi } from './http/api.ts';
import { createAuthenticator } from './http/authentication/authenticator.ts';
import { bearerToken } from './http/authentication/bearer.ts';
import { checkedAuthenticate } from './http/authentication/principal.ts';
import { OpenRequests } from './http/open-requests.ts';
import { createRouter } from './http/router.ts';
import { createRecognise } from './keys/authenticate.ts';
import { createKeyService } from './keys/service.ts';
import type { ModelGateway } from './model-gateway.ts';
import { buildIndexes } from './mongo/build-indexes.ts';
import { createDatabaseClock } from './mongo/clock.ts';
import {
  createDatabaseAccess,
  createDatabaseBudget,
  type DatabaseAccess,
  withDatabase,
} from './mongo/connection/availability.ts';
import { type Database, openDatabase } from './mongo/connection/connection.ts';
import { requireReplicaSet } from './mongo/connection/replica-set.ts';
import { type RunInTransaction, whileAwaited } from './mongo/transaction.ts';
import { loadSpec } from './openapi/spec.ts';
import { operationTable } from './operation-table.ts';
import { type ModelGatewayOptions, type ResolvedOptions, resolveOptions } from './options/options.ts';
import { isAllowedAddress, parseNetworks } from './outbound/addresses.ts';
import { createProxy } from './proxy/proxy.ts';
import { createShutdown } from './shutdown.ts';
import { readVersion } from './version.ts';
import { createDisableFailing } from './webhooks/health/disable-failing.ts';
import { toHealthBody } from './webhooks/health/routes.ts';
import { createHealthService } from './webhooks/health/service.ts';
import { createSealer } from './webhooks/secrets/sealing.ts';
import { createWebhookService } from './webhooks/service.ts';

export type { ModelGateway } from './model-gateway.ts';

/**
 * Builds a gateway: checks the options, opens the database, builds the indexes, joins the parts.
 * @throws GatewayError `invalid_options`, naming the option in `param` and the fix in the message
 */
export async function createModelGateway(given: ModelGatewayOptions): Promise<ModelGateway> {
  const options = resolveOptions(given);
  const database = await openDatabase(options.mongo, options.logger);
  const access = createDatabaseAccess(database.connection, options.logger);
  try {
    const hasTransactions = await requireReplicaSet(database.connection, options);
    return await join(options, { ...database, access }, hasTransactions);
  } catch (error) {
    access.close();
    await database.close();
    throw error;
  }
}

/** The database, and whether it can be reached at present. */
type OpenDatabase = Database & { readonly access: DatabaseAccess };

/** Every part, and how they are joined. */
async function join(options: ResolvedOptions, database: OpenDatabase, hasTransactions: boolean): Promise<ModelGateway> {
  const { connection, access } = database;
  const { collectionPrefix: prefix, logger } = options;
  const networks = parseNetworks(options.allowPrivateNetworks);
  if (networks.length > 0) {
    const { allowPrivateNetworks } = options;
    logger.warn('webhooks may reach networks that are not public', { allowPrivateNetworks });
  }
  const spec = addEventTypes(loadSpec(), options.eventTypes);
  const catalogue = createCatalogue(spec);
  const models = createModels(connection, prefix);

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
    disableFailing: createDisableFailing({
      healths: models.health,
      activeSince: webhooks.activeSince,
      disable: webhooks.disable,
      options,
      logger,
    }),
    interval: 1_000,
    logger,
  });
  const settleSubscribers = createSettleSubscribers(models.events, webhooks.confirmedSubscribers);
  const clock = createDatabaseClock(connection);
  const outbox = createOutbox(models.events, clock);
  const deliveries = createDeliveryService({
    connection,
    deliveries: models.deliveries,
    events: models.events,
    outbox,
    clock,
    settleSubscribers,
    forDelivery: webhooks.forDelivery,
    clients: { allowHttp: options.allowHttp, allowAddress: (address) => isAllowedAddress(address, networks) },
    options,
    userAgent: `express-model-gateway/${readVersion()}`,
    onAttempt: health.record,
  });
  const events = createEventService({
    connection,
    outbox,
    owners: models.owners,
    catalogue,
    subscribers: webhooks.subscribers,
    settleSubscribers,
    fanOut: deliveries.fanOut,
    database: access,
    logger,
  });
  // a standalone mongod, which the host has accepted, writes one after the other
  const transaction: RunInTransaction = hasTransactions ? events.transaction : (fn) => fn(undefined);
  const keys = createKeyService({
    keys: models.keys,
    maxKeys: options.maxApiKeys,
    gracePeriod: options.keyGracePeriod,
    publish: events.publish,
    transaction: whileAwaited(transaction),
    onLastUsedLost: (error) => logger.warn('the last use of API keys was not written', { reason: String(error) }),
  });
  const accounting = createAccounting({ models, publish: events.publish, transaction, database: access, options });
  const { credits, payments, limits, usage } = accounting;
  const proxy = createProxy({
    upstreams: options.upstreams,
    logger,
    retry: { attempts: options.modelAttempts, maxWait: options.modelRetryWait },
    hooks: options,
    admissionChecks: accounting.admissionChecks,
    ...(usage && { usageRecorder: usage }),
    exposeUpstream: options.exposeUpstream,
    idempotencySecret: sealer.derive('upstream idempotency keys'),
    abortOnDisconnect: options.abortOnDisconnect,
  });

  const eventRoutes = {
    publish: events.publish,
    history: createEventHistory(models.events, deliveries.eventStatuses),
    catalogue,
  };
  const recoveries = createRecoveryService({
    recoveries: models.recoveries,
    find: deliveries.recoverable,
    redeliver: deliveries.redeliver,
    webhook: webhooks.getConfirmed,
    rate: options.recoverRate,
    retention: options.retentionDays * 86_400_000,
    lease: 9_000,
    interval: 5_000,
    logger,
  });
  const { history, context, resend, makeTestAttempt, hasEnded } = deliveries;
  const deliveryRoutes = {
    history,
    context,
    budget: () => createDatabaseBudget(access),
    resend,
    sendTest: createSendTest({
      webhook: webhooks.getConfirmed,
      publishTest: (target) => events.publishTest({ ...target, lease: deliveries.lease }),
      attempt: makeTestAttempt,
      history,
      hasEnded,
      limit: createInFlightLimit(options.concurrencyPerAccount, 'test events'),
    }),
  };
  const { dashboard } = options;
  const recognise = createRecognise({ keys, database: access });
  const authenticator = createAuthenticator({
    byKey: options.authenticate
      ? checkedAuthenticate('authenticate', options.authenticate)
      : (req, isModelCall = false) => recognise(bearerToken(req), isModelCall),
    bySession: dashboard?.authenticate && checkedAuthenticate('dashboard.authenticate', dashboard.authenticate),
  });
  const openRequests = new OpenRequests();
  const addApi = await createApi({
    spec,
    operations: operationTable({
      models: proxy.operations,
      webhooks: { service: webhooks, health: async (id) => toHealthBody(await health.of(id), explain, Date.now()) },
      deliveries: deliveryRoutes,
      recoveries,
      health: { health, requireWebhook: webhooks.get, explain },
      keys,
      events: eventRoutes,
      payments,
      credits,
      usage: accounting.report,
    }),
    withDatabase: access.run,
    modelBodyLimit: options.modelBodyLimit,
    webhookBodyLimit: options.webhookBodyLimit,
    bodyMemory: options.bodyMemory,
    limitWrites: createWriteLimit(options.managementRateLimit),
    limitReads: createReadLimit(options.readRateLimit),
    openRequests,
    logger,
  });
  const indexed = [webhooks, events, deliveries, recoveries, health, accounting];
  await buildIndexes(() => Promise.all([models.keys.createIndexes(), ...indexed.map((part) => part.init())]), {
    connection,
    logger,
  });

  const router = createRouter(logger);
  if (dashboard) addDashboard(router, { dashboard, authenticator, addApi, openRequests, logger });
  else addApi(router, authenticator.byKey);
  const { create, list, get, update, rotateSecret, remove, reseal } = webhooks;
  const { revoke } = keys;
  const authenticate = async (token: string) => recognise(token, false);
  const close = createShutdown({
    parts: { recoveries, deliveries, health, accounting, keys, events, proxy, access, database },
    openRequests,
    drainTimeout: options.drainTimeout,
    logger,
  });

  return {
    router: router,
    keys: { authenticate, ...withDatabase(access, { create: keys.create, revoke, list: keys.list, get: keys.get }) },
    // resealing takes as long as there are webhooks
    webhooks: { ...withDatabase(access, { create, list, get, update, rotateSecret, remove }), reseal },
    payments: withDatabase(access, { completed: payments.completed, failed: payments.failed }),
    ...(credits && { credits: withDatabase(access, { topUp: credits.topUp, balance: credits.balance }) }),
    limits: withDatabase(access, { reportExceeded: limits.reportExceeded }),
    start() {
      accounting.start();
      recoveries.start();
      return deliveries.start();
    },
    publish: events.publish,
    transaction: (fn) => events.transaction(fn),
    close,
  };
}
