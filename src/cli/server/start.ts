import type { RequestListener } from 'node:http';
import { createModelGateway, type Logger, type ModelGateway, scopes } from '../../index.ts';
import { type Configuration, namingVariable } from '../config/config.ts';
import { loadSecretKeys } from '../config/secret-key.ts';
import { namingDatabase, writeSettings } from '../database/database.ts';
import { startDemoUpstream } from '../demo/demo-upstream.ts';
import { type Address, checkAddress } from './address.ts';
import { createOperationsListener, createRequestListener, startServer, withProbes } from './http-server.ts';

export interface Standalone {
  readonly baseUrl: string;
  readonly dashboardUrl: string;
  readonly data: string;
  /** Where Prometheus finds the metrics; absent without METRICS_PORT. */
  readonly metricsUrl?: string;
  /** The account and key that the first start creates; the key is never shown again. */
  readonly firstKey?: { readonly userId: string; readonly key: string };
  /** The account and scopes of that key, where none is made because a log would keep it. */
  readonly keyToMake?: { readonly userId: string; readonly scopes: readonly string[] };
  /** Whether model calls go to the demo upstream. */
  readonly demo: boolean;
  /** Stops everything in order: attempts in flight are recorded, streams end, mongod shuts down. */
  close(): Promise<void>;
}

const serveNoApi: RequestListener = (_req, res) => {
  res.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' });
  res.end('This process has ROLE worker, and serves /healthz and /readyz alone\n');
};

const firstUserId = 'usr_1';

/** What to undo, last step first: whatever was started is stopped, also when a later step fails. */
type Undo = (() => Promise<unknown>)[];

async function unwind(undo: Undo): Promise<void> {
  for (const step of undo.splice(0).reverse()) await step();
}

async function openDatabase({ mongodbUri, dataDir, options }: Configuration, log: (line: string) => void, undo: Undo) {
  if (mongodbUri) {
    const data = mongodbUri.replace(/^([a-z+]+:\/\/)[^@/]*@/, '$1').replace(/\?.*$/, '');
    return { uri: mongodbUri, data };
  }
  const { startEmbeddedMongo } = await import('../mongo/embedded-mongo.ts');
  const mongo = await startEmbeddedMongo({ dataDir, log });
  undo.push(mongo.stop);
  await writeSettings(dataDir, options);
  return { uri: mongo.uri, data: dataDir };
}

async function createFirstKey({ keys }: ModelGateway, { isForPeople }: StartOutput) {
  if ((await keys.list(firstUserId, { limit: 1 })).keys.length > 0) return {};
  if (!isForPeople) return { keyToMake: { userId: firstUserId, scopes } };
  const { userId, key } = await keys.create({ userId: firstUserId, name: 'first start', scopes });
  return { firstKey: { userId, key } };
}

/** Where the server says what it does. */
export interface StartOutput {
  readonly log: (line: string) => void;
  readonly logger: Logger;
  /** Whether people read what is printed, and no log keeps it: then the first start makes a key, and has it printed. */
  readonly isForPeople: boolean;
}

/**
 * Starts the stand-alone gateway: database, upstream, deliveries, server. The caller has checked PORT.
 * @throws GatewayError `invalid_options` naming the variable; whatever was started by then has been stopped
 */
export async function startStandalone(config: Configuration, output: StartOutput): Promise<Standalone> {
  const { log, logger } = output;
  const undo: Undo = [];
  try {
    const metrics = config.metrics && { ...config.metrics, prefix: 'METRICS_', isExclusive: true };
    if (metrics) await checkAddress(metrics);
    const { uri, data } = await openDatabase(config, log, undo);
    const secretKeys = config.secretKeys ?? (await loadSecretKeys(config.dataDir));
    const upstreams = config.upstreams ?? [await demo(undo)];
    const { allowHttp, allowPrivateNetworks, options } = config;
    const isWorker = config.role === 'worker';
    const gateway = await createModelGateway({
      ...options,
      mongo: uri,
      secretKeys,
      upstreams,
      allowHttp,
      allowPrivateNetworks,
      logger,
      logRequests: true,
      dashboard: { path: '/dashboard' },
    });
    undo.push(gateway.close);
    const router = isWorker ? serveNoApi : gateway.router;
    if (config.role !== 'api') await gateway.start();
    const firstKey = isWorker ? {} : await createFirstKey(gateway, output);
    const serve = withProbes(gateway, router);
    const listener = createRequestListener(serve, config.hstsMaxAge, config.corsOrigins);
    const server = await startServer(listener, config, isWorker ? undefined : gateway.attach);
    // the server keeps answering until the gateway has closed: open calls may end, and new ones get a 503
    undo.push(server.close, gateway.close);
    const metricsUrl = metrics && (await startMetricsServer(metrics, gateway, undo));
    const origin = `http://${hostInUrl(config.host)}:${server.port}`;
    return {
      baseUrl: `${origin}/v1`,
      dashboardUrl: `${origin}/dashboard/`,
      data,
      ...firstKey,
      demo: !config.upstreams,
      ...(metricsUrl && { metricsUrl }),
      async close() {
        await gateway.close({ delay: config.shutdownDelay });
        await unwind(undo);
      },
    };
  } catch (error) {
    await unwind(undo);
    throw namingDatabase(namingVariable(error, config.set), config);
  }
}

/** Starts the server of the metrics. It answers until the gateway has closed. @returns its address */
async function startMetricsServer(address: Address, gateway: ModelGateway, undo: Undo) {
  const server = await startServer(createOperationsListener(gateway), address);
  undo.splice(-1, 0, server.close);
  return `http://${hostInUrl(address.host)}:${server.port}/metrics`;
}

async function demo(undo: Undo) {
  const upstream = await startDemoUpstream();
  undo.push(upstream.close);
  return { name: 'demo', baseUrl: upstream.baseUrl, speaks: ['openai', 'anthropic'] as const };
}

/** How this machine reaches a server that listens on `host`. */
function hostInUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}
