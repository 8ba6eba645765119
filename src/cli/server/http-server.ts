import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
// works on plain Node requests, is typed and maintained; bundled, so no host installs it
import cors from 'cors';
import helmet from 'helmet';
import { type GatewayHealth, hardenServer, type ModelGateway } from '../../index.ts';
import { type Address, listenAt } from './address.ts';

export interface RunningServer {
  readonly port: number;
  /** Accepts no more connections and closes those that are open. */
  close(): Promise<void>;
}

/**
 * Starts an HTTP server.
 * @param attach called with the server before it listens. @default nothing is attached
 * @throws GatewayError `invalid_options` that names PORT or HOST when it cannot listen there
 */
export async function startServer(
  listener: RequestListener,
  address: Address,
  attach?: (server: Server) => void,
): Promise<RunningServer> {
  const server = hardenServer(createServer(listener));
  attach?.(server);
  await listenAt(server, address);
  const closed = once(server, 'close');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * Serves a gateway without a host's app: the router alone, which answers 404 to what it does not know. All of it has the
 * usual safe headers.
 * @param hstsMaxAge how long browsers use this host over TLS only, in milliseconds (RFC 6797). @default the header is not
 * sent, because only the operator knows whether there is TLS in front
 * @param corsOrigins whose pages may call the API from a browser; `*` is every origin. @default nobody's
 */
export function createRequestListener(
  router: RequestListener,
  hstsMaxAge?: number,
  corsOrigins: readonly string[] = [],
): RequestListener {
  const strictTransportSecurity = hstsMaxAge !== undefined && {
    maxAge: Math.floor(hstsMaxAge / 1_000),
    includeSubDomains: false,
  };
  const secure = helmet({ strictTransportSecurity });
  const serve = corsOrigins.length > 0 ? withCors(corsOrigins, router) : router;
  return (req, res) => secure(req, res, () => serve(req, res));
}

/** What clients read of answers; browsers show a page of another origin no others. */
const exposedHeaders = [
  'x-request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'request-id',
  ...['limit', 'remaining', 'reset'].flatMap((what) => [
    ...[`x-ratelimit-${what}-requests`, `x-ratelimit-${what}-tokens`],
    ...[`anthropic-ratelimit-requests-${what}`, `anthropic-ratelimit-tokens-${what}`],
  ]),
  'openai-processing-ms',
  'openai-version',
  'content-range',
];

/** How long browsers keep the answer to a preflight; Chromium takes no more. Seconds. */
const preflightMaxAge = 7_200;

const isApi = ({ url = '' }: IncomingMessage) => /^\/v1(?:[/?]|$)/.test(url);

const isPreflight = ({ method, headers }: IncomingMessage) =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;

/**
 * Lets pages of these origins call the API (the Fetch standard, "CORS protocol"). Only what is below `/v1`: a key says whose such a request
 * is, and a page of another origin has none but its own. The dashboard's requests may be signed in by a cookie, which every page would send,
 * and the probes are not for pages. So there are no credentials.
 */
function withCors(origins: readonly string[], next: RequestListener): RequestListener {
  const allow = cors({
    origin: origins.includes('*') ? '*' : [...origins],
    exposedHeaders,
    maxAge: preflightMaxAge,
    // what is no preflight is the router's
    preflightContinue: true,
  });
  return (req, res) => {
    if (!isApi(req)) return next(req, res);
    allow(req, res, () => {
      if (res.hasHeader('access-control-allow-origin')) res.setHeader('cross-origin-resource-policy', 'cross-origin');
      if (!isPreflight(req)) return next(req, res);
      // some browsers wait for a body otherwise
      res.writeHead(204, { 'content-length': '0' }).end();
    });
  };
}

/**
 * Adds `/healthz`, whether the process runs, and `/readyz`, whether it should get requests (503 if not, with the checks). Customers may
 * reach it: no index, key or upstream is named.
 */
export function withProbes(gateway: Pick<ModelGateway, 'health'>, next: RequestListener): RequestListener {
  return withAnswers(
    probes(gateway, ({ ready, checks }) => ({ ready, checks })),
    next,
  );
}

/** Answers `/metrics` for Prometheus, `/healthz` and `/readyz`, and 404 to all else: for a port that customers cannot reach. */
export function createOperationsListener(gateway: Pick<ModelGateway, 'health' | 'metrics'>): RequestListener {
  const registry = gateway.metrics();
  const answers: Answers = {
    ...probes(gateway, (state) => state),
    '/metrics': async (res) => answer(res, 200, registry.contentType, await registry.metrics()),
  };
  return withAnswers(answers, (_req, res) =>
    answer(res, 404, 'text/plain; charset=utf-8', 'Here are /metrics, /healthz and /readyz\n'),
  );
}

/** What a path answers. Nothing here rejects for a reason that a caller could give. */
type Answers = Readonly<Record<string, (res: ServerResponse, query: URLSearchParams) => unknown>>;

function probes({ health }: Pick<ModelGateway, 'health'>, shown: (state: GatewayHealth) => object): Answers {
  return {
    // a probe that gets no answer here restarts the process, so nothing else must make it fail
    '/healthz': (res) => answerJson(res, 200, { status: 'ok' }),
    // `?exclude=database&exclude=clock`, as Kubernetes' own API server has it
    async '/readyz'(res, query) {
      const state = await health();
      const excluded = query.getAll('exclude');
      const checks = Object.entries(state.checks);
      const unknown = excluded.find((name) => !Object.hasOwn(state.checks, name));
      if (unknown !== undefined) {
        const names = checks.map(([name]) => name).join(', ');
        answerJson(res, 400, { error: `exclude: there is no check ${unknown}; there are ${names}` });
        return;
      }
      const ready = checks.every(([name, result]) => result !== 'failed' || excluded.includes(name));
      answerJson(res, ready ? 200 : 503, shown({ ...state, ready }));
    },
  };
}

/** Answers GET and HEAD on these paths, and passes on every other request. */
function withAnswers(answers: Answers, next: RequestListener): RequestListener {
  return (req: IncomingMessage, res: ServerResponse) => {
    const [path = '', query = ''] = (req.url ?? '').split('?');
    const isRead = req.method === 'GET' || req.method === 'HEAD';
    if (!isRead || !Object.hasOwn(answers, path)) return next(req, res);
    Promise.resolve(answers[path]?.(res, new URLSearchParams(query))).catch(() => {
      if (!res.headersSent) answerJson(res, 500, { status: 'failed' });
    });
  };
}

function answer(res: ServerResponse, status: number, type: string, body: string): void {
  res.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body);
}

function answerJson(res: ServerResponse, status: number, value: unknown): void {
  answer(res, status, 'application/json', `${JSON.stringify(value)}\n`);
}
