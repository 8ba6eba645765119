import type { ClientSession } from 'mongoose';
import { type Database, openDatabase } from './connection.ts';
import { costOf } from './credits/price.ts';
import { type CreditService, createCreditService } from './credits/service.ts';
import { createDeliveryService } from './deliveries/service.ts';
import { createCatalogue } from './events/catalogue.ts';
import { createEventHistory } from './events/history.ts';
import { addEventTypes } from './events/own-types.ts';
import type { EventInput, PublishedEvent } from './events/publication.ts';
import { createEventService, type PublishOptions } from './events/service.ts';
import { bearerToken } from './http/bearer.ts';
import { createEdge, type Edge } from './http/edge.ts';
import { createWriteLimit } from './http/write-limit.ts';
import { createKeyService, type KeyService } from './keys/service.ts';
import { createLimitService, type LimitService } from './limits/service.ts';
import { createModels } from './models.ts';
import { type ModelCall, type ModelGatewayOptions, type ResolvedOptions, resolveOptions } from './options.ts';
import { isAllowedAddress, parseNetworks } from './outbound/addresses.ts';
import { createPaymentService, type PaymentService } from './payments/service.ts';
import { createProxy } from './proxy/proxy.ts';
import { longestCall } from './proxy/upstream.ts';
import { requireReplicaSet } from './replica-set.ts';
import { operationTable } from './router.ts';
import { loadSpec } from './spec.ts';
import { createCount } from './usage/count.ts';
import { createCounting } from './usage/counting.ts';
import { createReport } from './usage/report.ts';
import { createUsageService } from './usage/service.ts';
import { readVersion } from './version.ts';
import { createSealer } from './webhooks/sealing.ts';
import { createWebhookService, type WebhookService } from './webhooks/service.ts';

/** A gateway, ready to be mounted. */
export interface ModelGateway {
  /** Express middleware with everything under `/v1`; mount it at the root or under any prefix. */
  readonly router: Edge;
  /** API keys: create, revoke, list; and `authenticate`, for a host that takes them beside its own. */
  readonly keys: Pick<KeyService, 'create' | 'authenticate' | 'revoke' | 'list' | 'get'>;
  /** Any account's webhooks, as its owner sees them over HTTP; and `reseal`, for all of them at once. */
  readonly webhooks: Pick<WebhookService, 'create' | 'list' | 'get' | 'update' | 'rotateSecret' | 'remove' | 'reseal'>;
  /** Tells of calls that a limiter of the host's own has refused. */
  readonly limits: Pick<LimitService, 'reportExceeded'>;
  /** Prepaid credits; only with the option `credits`. */
  readonly credits?: Pick<CreditService, 'topUp' | 'balance'>;
  /** What the host's payment processor reports: `completed` and `failed`. */
  readonly payments: PaymentService;
  /** Makes delivery attempts in this process from now on. Publishing works without it, as long as some process does. */
  start(): Promise<void>;
  /**
   * Publishes an event to the account's webhooks. Once it resolves, the event cannot be lost.
   * @throws GatewayError `unknown_event_type`, `invalid_event_data`, `invalid_value`, `idempotency_conflict`,
   *   `weak_write_concern`: nothing was stored; or `publish_unconfirmed`: publish again with the `idempotencyKey` it carries
   */
  publish(input: EventInput, options?: PublishOptions): Promise<PublishedEvent>;
  /** Runs the host's own writes and what it publishes under `session` as one transaction, and starts the deliveries on commit. */
  transaction<T>(fn: (session: ClientSession) => Promise<T>): Promise<T>;
  /** Stops intake, lets attempts in flight end (35 s at most), closes what the gateway opened. May be called again. */
  close(): Promise<void>;
}

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

/** Runs several writes as one, where the database can. */
type Atomically = <T>(fn: (session: ClientSession | undefined) => Promise<T>) => Promise<T>;

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
  const deliveries = createDeliveryService({
    connection,
    deliveries: models.deliveries,
    events: models.events,
    forDelivery: webhooks.forDelivery,
    clients: { allowAddress: (address) => isAllowedAddress(address, networks) },
    options,
    userAgent: `express-model-gateway/${readVersion()}`,
  });
  const events = createEventService({
    connection,
    events: models.events,
    catalogue,
    subscribers: webhooks.subscribers,
    fanOut: deliveries.fanOut,
    logger,
  });
  // a standalone mongod, which the host has accepted, writes one after the other
  const transaction: Atomically = hasTransactions ? events.transaction : (fn) => fn(undefined);
  const keys = createKeyService({
    keys: models.keys,
    publish: events.publish,
    transaction,
    onLastUsedLost: (error) => logger.warn('the last use of API keys was not written', { reason: String(error) }),
  });
  const { publish } = events;
  const { accounts, ledger } = models;
  const credits =
    options.credits &&
    createCreditService({ accounts, ledger, publish, transaction, options: options.credits, logger });
  const payments = createPaymentService({
    payments: models.payments,
    publish,
    transaction,
    ...(credits && { credit: credits.credit }),
  });
  const usage = createUsageService({
    usage: models.usage,
    logger,
    longestCall: longestCall(options.upstreams),
  });
  const prices = options.credits?.prices;
  const counting = createCounting({
    count: createCount({
      usage: models.usage,
      counters: models.counters,
      periods: models.periods,
      transaction,
      publish: events.publish,
      quotas: options.quotas,
      ...(credits && { charge: credits.charge }),
      ...(prices && { cost: (record) => costOf(prices, record) }),
      logger,
      batchSize: 500,
    }),
    interval: 500,
    logger,
  });
  const limits = createLimitService({
    rates: models.rates,
    exceeded: models.exceeded,
    publish: events.publish,
    options: options.limits,
    logger,
  });
  const { admit } = limits;
  const proxy = createProxy({
    upstreams: options.upstreams,
    logger,
    retry: { attempts: options.modelAttempts, maxWait: options.modelRetryWait },
    hooks: options,
    gates: [
      ...(admit ? [({ principal }: ModelCall, tokens: number) => admit(principal, tokens)] : []),
      ...(credits ? [credits.admit] : []),
    ],
    metering: usage,
    exposeUpstream: options.exposeUpstream,
  });

  const eventRoutes = { publish: events.publish, history: createEventHistory(models.events), catalogue };
  const router = await createEdge({
    spec,
    operations: operationTable({
      models: proxy.operations,
      webhooks,
      keys,
      events: eventRoutes,
      payments,
      credits,
      usage: createReport(models.counters),
    }),
    authenticate: options.authenticate ?? ((req) => keys.authenticate(bearerToken(req))),
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
    models.usage.createIndexes(),
    models.counters.createIndexes(),
    models.periods.createIndexes(),
    models.payments.createCollection(),
    credits?.init(),
    models.rates.createIndexes(),
    models.exceeded.createIndexes(),
  ]);

  const { create, list, get, update, rotateSecret, remove, reseal } = webhooks;
  const { authenticate, revoke } = keys;
  let closing: Promise<void> | null = null;
  async function close(): Promise<void> {
    await Promise.all([deliveries.close(), proxy.close()]);
    await Promise.all([usage.close(), counting.close(), limits.close(), keys.close(), credits?.close()]);
    await database.close();
  }

  return {
    router,
    keys: { create: keys.create, authenticate, revoke, list: keys.list, get: keys.get },
    webhooks: { create, list, get, update, rotateSecret, remove, reseal },
    payments,
    ...(credits && { credits: { topUp: credits.topUp, balance: credits.balance } }),
    limits: { reportExceeded: limits.reportExceeded },
    start() {
      usage.start();
      counting.start();
      limits.start();
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
