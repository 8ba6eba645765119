import { AsyncLocalStorage } from 'node:async_hooks';
import { createServer } from 'node:http';
import express from 'express';
import OpenAI from 'openai';
import { createApi } from '../../src/http/api.ts';
import { type Authenticate, createAuthenticator } from '../../src/http/authentication.ts';
import type { DataOperation, Operation, RelayOperation } from '../../src/http/operation.ts';
import type { Operations } from '../../src/http/router.ts';
import { addEndpoints } from '../../src/http/validation/own-endpoints.ts';
import type { EndpointOptions, Principal } from '../../src/index.ts';
import { sharedSpec } from '../../src/openapi/spec.ts';
import { keepConnections, listenOn } from './listen.ts';
import { silentLogger } from './logger.ts';
import { createTestProxy, type TestProxy, type TestProxyOptions } from './model-proxy.ts';
import { loadSpec, type Spec } from './openapi.ts';

/** The key that a model server takes. */
export const callerKey = 'sk-caller-canary';

/** The key of another account that it takes. */
export const strangerKey = 'sk-stranger-canary';

/** The key of that account which may call `gpt-1` alone. */
export const limitedKey = 'sk-limited-canary';

/** The model endpoints alone, behind the real edge, in an Express app; no database. */
export interface ModelServer {
  /** With `/v1`. */
  readonly baseUrl: string;
  readonly proxy: TestProxy;
  /** The official client, without retries of its own unless `options` say so. */
  client(options?: ConstructorParameters<typeof OpenAI>[0]): OpenAI;
  close(): Promise<void>;
}

/** openapi.yaml with those paths alone that the operations do. */
function specOf(operations: Operations): Spec {
  const spec = loadSpec();
  const paths = Object.entries(spec.paths).filter(([, item]) =>
    Object.values(item).some((operation) =>
      Object.hasOwn(operations, (operation as { operationId: string }).operationId),
    ),
  );
  return { ...spec, paths: Object.fromEntries(paths) };
}

const principals = new Map<string, Principal>([
  [`Bearer ${callerKey}`, { userId: 'usr_1' }],
  [`Bearer ${strangerKey}`, { userId: 'usr_2' }],
  [`Bearer ${limitedKey}`, { userId: 'usr_2', models: ['gpt-1'] }],
]);

/** Whose operations a request is for. */
const current = new AsyncLocalStorage<Operations>();

function currentOperation(id: string): Operation {
  const find = <Kind>() => current.getStore()?.[id] as Kind;
  const operations: Operations = createTestProxy({ upstreams: [] }).operations;
  const sample = operations[id];
  if (sample && 'relay' in sample) return { relay: (call, res) => find<RelayOperation>().relay(call, res) };
  return { handle: (call) => find<DataOperation>().handle(call) };
}

function createEdge(spec: Parameters<typeof createApi>[0]['spec'], operations: Operations): express.Router {
  const addApi = createApi({
    spec,
    operations,
    modelBodyLimit: 32 * 1024 * 1024,
    webhookBodyLimit: 256 * 1024,
    logger: silentLogger,
  });
  const byKey: Authenticate = ({ headers }) =>
    principals.get(headers.authorization ?? `Bearer ${headers['x-api-key']}`) ?? null;
  const router = express.Router();
  addApi(router, createAuthenticator({ byKey }).byKey);
  return router;
}

/** One edge for all servers, for compiling its schemas takes longer than most tests. */
function createSharedEdge(): express.Router {
  const ids = Object.keys(createTestProxy({ upstreams: [] }).operations);
  const operations = Object.fromEntries(ids.map((id) => [id, currentOperation(id)]));
  return createEdge(specOf(operations), operations);
}

/** The edge of a host's own endpoints, which one server has. */
function createOwnEdge(endpoints: readonly EndpointOptions[], operations: Operations): express.Router {
  const spec = addEndpoints(sharedSpec(), endpoints);
  const paths = Object.fromEntries(endpoints.map(({ path }) => [path, spec.paths[path] ?? {}]));
  return createEdge({ ...spec, paths }, operations);
}

let sharedEdge: express.Router | undefined;

export async function startModelServer(
  options: TestProxyOptions,
  before: express.RequestHandler[] = [],
): Promise<ModelServer> {
  const proxy = createTestProxy(options);
  sharedEdge ??= createSharedEdge();
  const edge = sharedEdge;
  const app = express();
  for (const middleware of before) app.use(middleware);
  if (options.endpoints) app.use(createOwnEdge(options.endpoints, proxy.ownOperations));
  app.use((req, res, next) => current.run(proxy.operations, () => edge(req, res, next)));
  const server = createServer(app);
  keepConnections(server);
  const baseUrl = `http://127.0.0.1:${await listenOn(server)}/v1`;
  return {
    baseUrl,
    proxy,
    client: (options) => new OpenAI({ apiKey: callerKey, baseURL: baseUrl, maxRetries: 0, ...options }),
    async close() {
      server.closeAllConnections();
      server.close();
      await proxy.close();
    },
  };
}
