import { createClose } from './gateway/close.ts';
import { everyIndex } from './gateway/collections.ts';
import { createGaugeReadings } from './gateway/gauge-readings.ts';
import { createHealthCheck } from './gateway/health/gateway-health.ts';
import { createHealthReadings } from './gateway/health/health-readings.ts';
import type { ModelGateway } from './gateway/model-gateway.ts';
import { authenticatorOf, createGatewayRouter } from './gateway/router.ts';
import { createServices, type OpenDatabase } from './gateway/services.ts';
import { createShutdown } from './gateway/shutdown.ts';
import { OpenRequests } from './http/request.ts';
import { createAuthenticateKey } from './keys/verify-key.ts';
import { createDatabaseAccess, withDatabase } from './mongo/connection/availability.ts';
import { openDatabase, requireReplicaSet } from './mongo/connection/connection.ts';
import { namingMissingRights } from './mongo/connection/open-failure.ts';
import { prepareSchema } from './mongo/schema/prepare-schema.ts';
import { addGauges } from './operator/gauges.ts';
import { createHasWorker } from './operator/processes.ts';
import type { ModelGatewayOptions, ResolvedOptions } from './options/options.ts';
import { resolveOptions } from './options/resolve.ts';
import { Sockets } from './sockets/sockets.ts';

export type { ModelGateway } from './gateway/model-gateway.ts';

/**
 * Builds a gateway: checks the options, opens the database, builds the indexes or checks them, joins the parts.
 * @typeParam Custom the names of the option `eventTypes`
 * @throws GatewayError `invalid_options`, naming the option in `param` and the fix in the message
 */
export async function createModelGateway<Custom extends string = never>(
  given: ModelGatewayOptions<Custom>,
): Promise<ModelGateway<Custom>> {
  const options = resolveOptions(given);
  const database = await openDatabase(options.mongo, options.logger);
  const access = createDatabaseAccess(database.connection, options.logger);
  try {
    const hasTransactions = await requireReplicaSet(database.connection, options);
    return await join(options, { ...database, access, hasTransactions });
  } catch (error) {
    access.close();
    await database.close();
    throw namingMissingRights(error);
  }
}

/** Joins the services of a gateway with its router, and prepares the database for them. */
async function join(options: ResolvedOptions, database: OpenDatabase): Promise<ModelGateway> {
  const { connection, access } = database;
  const { logger } = options;
  const services = createServices(options, database);
  const { models, webhooks, events, eventHistory, deliveries, recoveries, keys, accounting, proxy } = services;
  const {
    admin,
    processes,
    processRecord,
    backgroundResponses,
    storedObjects,
    notifications,
    metrics,
    refusals,
    requestLog,
  } = services;
  const authenticateKey = createAuthenticateKey(keys, access);
  const openRequests = new OpenRequests();
  const authenticator = authenticatorOf(options, authenticateKey);
  const observers = [metrics.requests, refusals, ...(requestLog ? [requestLog] : [])];
  const router = await createGatewayRouter({ services, options, access, authenticator, observers, openRequests });
  const sockets = new Sockets({
    ...options,
    relaying: proxy.relaying,
    authenticate: authenticator.byKey,
    secrets: services.secrets,
    spec: services.spec,
    observers,
  });
  const prefix = options.collectionPrefix;
  const schema = { connection, prefix, needed: everyIndex(models, prefix) };
  await prepareSchema(schema, options);
  await Promise.all([
    webhooks.requireEveryKey(),
    deliveries.init(),
    backgroundResponses.init(),
    storedObjects.models.init(),
  ]);

  const { budgets, credits, payments, limits } = accounting;
  const { create, list, get, update, rotateSecret, remove, reseal } = webhooks;
  const { update: updateKey, revoke } = keys;
  const authenticate = async (token: string) => authenticateKey(token, false);
  const shutDown = createShutdown({
    parts: { ...services, access, database },
    openRequests,
    sockets,
    drainTimeout: options.drainTimeout,
    logger,
  });
  const { close, isClosing } = createClose(shutDown);

  const checkHealth = createHealthCheck({
    deliveries,
    upstreams: proxy.states,
    read: createHealthReadings({
      database,
      schema,
      missingKeys: webhooks.missingKeys,
      backlog: services.backlog,
      hasWorker: createHasWorker(models.processes),
    }),
    isClosing,
  });
  addGauges(metrics.registry, createGaugeReadings({ services, database, checkHealth }));
  await processRecord.start();

  return {
    router,
    upgrade: (req, socket, head) => sockets.upgrade(req, socket, head),
    attach: (server, where) => sockets.attach(server, where),
    keys: {
      authenticate,
      ...withDatabase(access, { create: keys.create, update: updateKey, revoke, list: keys.list, get: keys.get }),
    },
    // resealing takes as long as there are webhooks
    webhooks: { ...withDatabase(access, { create, list, get, update, rotateSecret, remove }), reseal },
    payments: withDatabase(access, { completed: payments.completed, failed: payments.failed }),
    ...(credits && { credits: withDatabase(access, { topUp: credits.topUp, balance: credits.balance }) }),
    ...(budgets && { budgets: withDatabase(access, { get: budgets.get, set: budgets.set }) }),
    limits: withDatabase(access, { reportExceeded: limits.reportExceeded }),
    events: withDatabase(access, { list: eventHistory.list, get: eventHistory.get }),
    deliveries: withDatabase(access, { list: deliveries.history.list, get: deliveries.history.get }),
    ...(accounting.report && { usage: withDatabase(access, { report: accounting.report }) }),
    admin: withDatabase(access, { ...admin, ...processes }),
    async start() {
      accounting.start();
      recoveries.start();
      await Promise.all([deliveries.start(), backgroundResponses.start()]);
      await processRecord.renew();
    },
    publish: events.publish,
    transaction: (fn) => events.transaction(fn),
    on: (name, listener) => notifications.on(name, listener),
    off: (name, listener) => notifications.off(name, listener),
    metrics: () => metrics.registry,
    health: async () => (await checkHealth()).health,
    close,
  };
}
