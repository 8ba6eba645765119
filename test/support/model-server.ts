import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import OpenAI from 'openai';
import { createEdge } from '../../src/http/edge.ts';
import { createProxy, type ModelProxy, type ProxyDependencies } from '../../src/proxy/proxy.ts';
import { loadSpec, type Spec } from '../../src/spec.ts';

/** The key that a model server takes. */
export const callerKey = 'sk-caller-canary';

/** The model endpoints alone, behind the real edge, in an Express app; no database. */
export interface ModelServer {
  /** With `/v1`. */
  readonly baseUrl: string;
  readonly proxy: ModelProxy;
  /** The official client, without retries of its own unless `options` say so. */
  client(options?: ConstructorParameters<typeof OpenAI>[0]): OpenAI;
  close(): Promise<void>;
}

/** openapi.yaml with those paths alone that the operations do. */
function specOf(operations: ModelProxy['operations']): Spec {
  const spec = loadSpec();
  const paths = Object.entries(spec.paths).filter(([, item]) =>
    Object.values(item).some((operation) =>
      Object.hasOwn(operations, (operation as { operationId: string }).operationId),
    ),
  );
  return { ...spec, paths: Object.fromEntries(paths) };
}

export async function startModelServer(
  deps: Partial<ProxyDependencies> & Pick<ProxyDependencies, 'upstreams'>,
  before: express.RequestHandler[] = [],
): Promise<ModelServer> {
  const logger = { info() {}, warn() {}, error() {} };
  const proxy = createProxy({ logger, ...deps });
  const edge = await createEdge({
    spec: specOf(proxy.operations),
    operations: proxy.operations,
    authenticate: (req) => (req.headers.authorization === `Bearer ${callerKey}` ? { userId: 'usr_1' } : null),
    modelBodyLimit: 32 * 1024 * 1024,
    webhookBodyLimit: 256 * 1024,
    logger,
  });
  const app = express();
  for (const middleware of before) app.use(middleware);
  const server = createServer(app.use(edge)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
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
