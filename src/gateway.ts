import { everyIndex } from './gateway/collections.ts';
import { type CheckHealth, createHealthCheck } from './gateway/health/gateway-health.ts';
import type { ModelGateway } from './gateway/model-gateway.ts';
import { authenticatorOf, createGatewayRouter } from './gateway/router.ts';
import { createServices, type OpenDatabase, type Services } from './gateway/services.ts';
import { createClose } from './gateway/shutdown.ts';
import { OpenRequests } from './http/request.ts';
import { createAuthenticateKey } from './keys/verify-key.ts';
import { createDatabaseAccess, withDatabase } from './mongo/connection/availability.ts';
import { openDatabase, poolUsage, requireReplicaSet } from './mongo/connection/connection.ts';
import { namingMissingRights } from './mongo/connection/open-failure.ts';
import { withTimeout } from './mongo/periodic.ts';
import { prepareSchema } from './mongo/schema/prepare-schema.ts';
import { addGauges, type GaugeReadings } from './operator/gauges.ts';
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
  const services = createServices(options, database);
  const { models, keys, webhooks, accounting, events, eventHistory, deliveries, proxy } = services;
  const { backgroundResponses, storedObjects, notifications, metrics, processRecord, requestLog } = services;
  const authenticateKey = createAuthenticateKey(keys, access);
  const openRequests = new OpenRequests();
  const authenticator = authenticatorOf(options, authenticateKey);
  const observers = [metrics.requests, services.refusals, ...(requestLog ? [requestLog] : [])];
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
  const { close, isClosing } = createClose({ services, database, openRequests, sockets, options });

  const checkHealth = createHealthCheck({ services, access, schema, isClosing });
  addGauges(metrics.registry, () => readGauges(services, database, checkHealth));
  await processRecord.start();

  return {
    router,
    upgrade: (req, socket, head) => sockets.upgrade(req, socket, head),
    attach: (server, where) => sockets.attach(server, where),
    keys: {
      authenticate: async (token) => authenticateKey(token, false),
      ...withDatabase(access, {
        create: keys.create,
        update: keys.update,
        revoke: keys.revoke,
        list: keys.list,
        get: keys.get,
      }),
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
    admin: withDatabase(access, { ...services.admin, ...services.processes }),
    async start() {
      accounting.start();
      services.recoveries.start();
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

/** How long the database may take to say how large the backlog is. Milliseconds. */
const backlogTimeout = 1_000;

function readGauges(services: Services, database: OpenDatabase, checkHealth: CheckHealth): GaugeReadings {
  const { backlog, deliveries, proxy } = services;
  const { isUnavailable } = database.access;
  return {
    attempts: deliveries.scheduler.attempts,
    upstreams: proxy.states(),
    databaseAvailable: !isUnavailable,
    pool: poolUsage(database.connection.getClient()),
    workerLive: deliveries.due.isLive,
    async health() {
      const { health, readings } = await checkHealth();
      return { checks: health.checks, ...readings };
    },
    async backlog() {
      return isUnavailable ? undefined : withTimeout(backlog.size(), backlogTimeout, false).catch(() => undefined);
    },
  };
}
