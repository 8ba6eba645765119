import { createDatabaseAccess, withDatabase } from '../mongo/connection/availability.ts';
import { modelConnection, openDatabase, requireReplicaSet } from '../mongo/connection/connection.ts';
import { openingFailure } from '../mongo/connection/open-failure.ts';
import { prepareSchema } from '../mongo/schema/prepare-schema.ts';
import { addGauges } from '../operator/gauges.ts';
import type { Fixed } from '../options/fixed.ts';
import type { ResolvedOptions } from '../options/options.ts';
import { Sockets } from '../sockets/sockets.ts';
import { everyIndex } from './collections.ts';
import { createHealthCheck } from './health/gateway-health.ts';
import type { ModelGateway } from './model-gateway.ts';
import { createGatewayRouter } from './router.ts';
import { createServices, type OpenDatabase } from './services.ts';
import { createClose } from './shutdown.ts';

/**
 * Opens the database, builds the indexes or checks them, joins the parts.
 * @param fixed what is the same in every gateway, but for tests
 * @throws GatewayError `invalid_options` if the database is none that a gateway can use
 */
export async function openGateway(options: ResolvedOptions, fixed: Fixed): Promise<ModelGateway> {
  const database = await openDatabase(options.mongo, options.logger);
  const access = createDatabaseAccess(database.connection, options.logger);
  try {
    const hasTransactions = await requireReplicaSet(database.connection, options);
    const connection = modelConnection(database.connection);
    return await join(options, fixed, { ...database, connection, access, hasTransactions });
  } catch (error) {
    access.close();
    await database.close();
    throw openingFailure(error);
  }
}

/** Joins the services of a gateway with its router, and prepares the database for them. */
async function join(options: ResolvedOptions, fixed: Fixed, database: OpenDatabase): Promise<ModelGateway> {
  const services = createServices(options, fixed, database);
  const { access, models, keys, webhooks, accounting, events, eventHistory, deliveries } = services;
  const { backgroundResponses, notifications, metrics, processRecord } = services;
  const prefix = options.collectionPrefix;
  const schema = { connection: database.connection, prefix, needed: everyIndex(models, prefix) };
  const router = createGatewayRouter(services);
  await prepareSchema(schema, options);
  const sockets = new Sockets({
    ...options,
    maxSocketMessageBytes: fixed.socketMessageBytes,
    maxSockets: options.sockets.maxPerAccount,
    socketIdleTimeout: options.sockets.idleTimeout,
    relaying: services.sessions,
    authenticate: services.authenticator.byKey,
    secrets: services.secrets,
    spec: services.spec,
    bodyMemory: services.bodyMemory,
    observers: services.requestObservers,
  });
  await Promise.all([webhooks.requireEveryKey(), services.storedObjects.models.init()]);

  const { budgets, credits, payments, limits } = accounting;
  const { close, isClosing } = createClose(services, sockets);

  const checkHealth = createHealthCheck(services, schema, isClosing);
  addGauges(metrics.registry, () => ({ ...services, checkHealth }));
  await processRecord.start();

  return {
    // a process that only delivers asks for none
    get router() {
      processRecord.serves();
      return router;
    },
    upgrade: (req, socket, head) => sockets.upgrade(req, socket, head),
    attach: (server, where) => sockets.attach(server, where),
    keys: {
      authenticate: async (token) => services.authenticateKey(token, false),
      ...withDatabase(access, keys, 'create', 'update', 'revoke', 'list', 'get'),
    },
    webhooks: {
      ...withDatabase(access, webhooks, 'create', 'list', 'get', 'update', 'rotateSecret', 'remove'),
      // takes as long as there are webhooks
      reseal: webhooks.reseal,
    },
    payments: withDatabase(access, payments, 'completed', 'failed'),
    ...(credits && { credits: withDatabase(access, credits, 'topUp', 'balance') }),
    ...(budgets && { budgets: withDatabase(access, budgets, 'get', 'set') }),
    limits: withDatabase(access, limits, 'reportExceeded'),
    events: withDatabase(access, eventHistory, 'list', 'get'),
    deliveries: withDatabase(access, deliveries.history, 'list', 'get'),
    ...(accounting.report && { usage: withDatabase(access, { report: accounting.report }, 'report') }),
    admin: {
      ...withDatabase(access, services.admin, 'accounts', 'account', 'failingWebhooks', 'refusals', 'search'),
      ...withDatabase(access, services.processes, 'processes', 'upstreams', 'backlog'),
    },
    async start() {
      // where there can be no jobs, nothing begins
      await deliveries.init();
      if (isClosing()) return;
      accounting.start();
      services.recoveries.start();
      backgroundResponses.start();
      await deliveries.start();
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
