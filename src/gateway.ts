import { type Database, openDatabase } from './connection.ts';
import { createDashboard } from './dashboard/dashboard.ts';
import { createSignIn } from './dashboard/sign-in.ts';
import { explain } from './deliveries/body.ts';
import { createDeliveryService } from './deliveries/service.ts';
import { createSendTest } from './deliveries/test-event.ts';
import { createCatalogue } from './events/catalogue.ts';
import { createEventHistory } from './events/history.ts';
import { addEventTypes } from './events/own-types.ts';
import { createEventService } from './events/service.ts';
import { createDisableFailing } from './health/disabling.ts';
import { toHealthBody } from './health/routes.ts';
import { createHealthService } from './health/service.ts';
import { bearerToken } from './http/bearer.ts';
import { createEdge } from './http/edge.ts';
import { createWriteLimit } from './http/write-limit.ts';
import { createKeyService } from './keys/service.ts';
import { type Atomically, createMetering } from './metering.ts';
import type { ModelGateway } from './model-gateway.ts';
import { createModels } from './models.ts';
import { type ModelGatewayOptions, type ResolvedOptions, resolveOptions } from './options.ts';
import { isAllowedAddress, parseNetworks } from './outbound/addresses.ts';
import { createProxy } from './proxy/proxy.ts';
import { createRecoveryService } from './recoveries/service.ts';
import { requireReplicaSet } from './replica-set.ts';
import { operationTable } from './router.ts';
import { loadSpec } from './spec.ts';
import { readVersion } from './version.ts';
import { createSealer } from './webhooks/sealing.ts';
import { createWebhookService } from './webhooks/service.ts';

export type { ModelGateway } from './model-gateway.ts';

/**
 * Builds a gateway: checks the options, opens the database, builds the indexes, joins the parts.
 * @throws GatewayError `invalid_options`, naming the option in `param` and the fix in the message
 */
export async function createModelGateway(given: ModelGatewayOptions): Promise<ModelGateway> {
  const options = resolveOptions(given);
  const database = await openDatabase(options.mongo);
  try {
    const hasTransactions = await requireReplicaSet(database.connection, options);
    return await join(options, database, hasTransactions);
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** Every part, and how they are joined. */
async function join(options: ResolvedOptions, database: Database, hasTransactions: boolean): Promise<ModelGateway> {
  const { connection } = database;
  const { collectionPrefix: prefix, logger } = options;
  const networks = parseNetworks(options.allowPrivateNetworks);
  if (networks.length > 0) {
    const { allowPrivateNetworks } = options;
    logger.warn('webhooks may reach networks that are not public', { allowPrivateNetworks });
  }
  const spec = addEventTypes(loadSpec(), options.eventTypes);
  const catalogue = createCatalogue(spec);
  const models = createModels(connection, prefix);

  const webhooks = createWebhookService({
    webhooks: models.webhooks,
    sealer: createSealer(options.secretKeys),
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
  const deliveries = createDeliveryService({
    connection,
    deliveries: models.deliveries,
    events: models.events,
    forDelivery: webhooks.forDelivery,
    clients: { allowAddress: (address) => isAllowedAddress(address, networks) },
    options,
    userAgent: `express-model-gateway/${readVersion()}`,
    onAttempt: health.record,
  });
  const events = createEventService({
    connection,
    events: models.events,
    owners: models.owners,
    catalogue,
    subscribers: webhooks.subscribers,
    fanOut: deliveries.fanOut,
    // in transactions, which a standalone mongod has none of
    ...(hasTransactions && { births: deliveries.births }),
    logger,
  });
  // a standalone mongod, which the host has accepted, writes one after the other
  const transaction: Atomically = hasTransactions ? events.transaction : (fn) => fn(undefined);
  const keys = createKeyService({
    keys: models.keys,
    maxKeys: options.maxApiKeys,
    publish: events.publish,
    transaction,
    onLastUsedLost: (error) => logger.warn('the last use of API keys was not written', { reason: String(error) }),
  });
  const metering = createMetering({ models, publish: events.publish, transaction, options });
  const { credits, payments, limits, usage } = metering;
  const proxy = createProxy({
    upstreams: options.upstreams,
    logger,
    retry: { attempts: options.modelAttempts, maxWait: options.modelRetryWait },
    hooks: options,
    gates: metering.gates,
    ...(usage && { metering: usage }),
    exposeUpstream: options.exposeUpstream,
  });

  const eventRoutes = {
    publish: events.publish,
    history: createEventHistory(models.events, deliveries.standings),
    catalogue,
  };
  const recoveries = createRecoveryService({
    recoveries: models.recoveries,
    find: deliveries.recoverable,
    again: deliveries.again,
    webhook: webhooks.get,
    rate: options.recoverRate,
    retention: options.retentionDays * 86_400_000,
    lease: 9_000,
    interval: 5_000,
    logger,
  });
  const { history, surroundings, resend, attempt } = deliveries;
  const deliveryRoutes = {
    history,
    surroundings,
    resend,
    sendTest: createSendTest({ webhook: webhooks.get, publishTest: events.publishTest, attempt, history }),
  };
  const { dashboard } = options;
  const signIn = createSignIn({
    byKey: options.authenticate ?? ((req) => keys.recognise(bearerToken(req))),
    bySession: dashboard?.authenticate,
  });
  const api = await createEdge({
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
      usage: metering.report,
    }),
    authenticate: signIn.authenticate,
    modelBodyLimit: options.modelBodyLimit,
    webhookBodyLimit: options.webhookBodyLimit,
    limitWrites: createWriteLimit(options.managementRateLimit),
    logger,
  });
  await Promise.all([
    models.keys.createIndexes(),
    webhooks.init(),
    events.init(),
    deliveries.init(),
    recoveries.init(),
    health.init(),
    metering.init(),
  ]);

  const { create, list, get, update, rotateSecret, remove, reseal } = webhooks;
  const { authenticate, revoke } = keys;
  let closing: Promise<void> | null = null;
  async function close(): Promise<void> {
    await Promise.all([recoveries.close().then(deliveries.close), proxy.close()]);
    await Promise.all([health.close(), metering.close(), keys.close()]);
    await events.close();
    await database.close();
  }

  return {
    router: dashboard ? createDashboard({ dashboard, signIn, api, logger }) : api,
    keys: { create: keys.create, authenticate, revoke, list: keys.list, get: keys.get },
    webhooks: { create, list, get, update, rotateSecret, remove, reseal },
    payments,
    ...(credits && { credits: { topUp: credits.topUp, balance: credits.balance } }),
    limits: { reportExceeded: limits.reportExceeded },
    start() {
      metering.start();
      recoveries.start();
      return deliveries.start();
    },
    publish: events.publish,
    transaction: events.transaction,
    close() {
      closing ??= close();
      return closing;
    },
  };
}
