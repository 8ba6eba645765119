import type { IncomingMessage, ServerResponse } from 'node:http';
import express from 'express';
import { errorIn, GatewayError } from '../errors.ts';
import { resolveSchema } from '../openapi/schemas.ts';
import { bodiesOf, type Spec, type SpecOperation, type SpecSchema, specMethods } from '../openapi/spec.ts';
import type { Logger } from '../options/options.ts';
import { type Scope, scopes } from '../options/principal.ts';
import type { Operation } from './operation.ts';
import { answerError, sendReply } from './reply.ts';
import {
  ClientDisconnect,
  dialectOf,
  isAnswered,
  type OpenRequests,
  pathOf,
  requestId,
  requireOneHost,
  setRequestId,
} from './request.ts';

/**
 * What a host mounts: an Express router, which also works as a listener of `node:http`.
 * @param next gets every request that is not the gateway's. @default such a request is answered 404:
 * `endpoint_not_served` below `/v1`, `not_found` elsewhere
 */
export type GatewayRouter = (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void) => void;

/** What the answer to a request for an unknown path below `/v1` names. */
interface KnownPaths {
  /** Those of the model endpoints. */
  readonly models: readonly string[];
  /** Those that are not served for a reason, which the answer gives. @default none */
  readonly notServed?: Spec['x-not-served'];
}

function answerNotFound(req: IncomingMessage, res: ServerResponse, { models, notServed = [] }: KnownPaths): void {
  const { method } = req;
  const path = pathOf(req);
  let error = new GatewayError('not_found', `There is no ${method} ${path} here; the API is under /v1`);
  if (/^\/v1(?:\/|$)/.test(path)) {
    const message = `This gateway does not serve ${method} ${path}; the model endpoints are ${models.join(', ')} and those below them`;
    // a host may serve what OpenAI does no more
    const isBelow = (known: string) => `${path}/`.startsWith(`${known}/`);
    const entry = models.some(isBelow) ? undefined : notServed.find(({ paths }) => paths.some(isBelow));
    error = new GatewayError('endpoint_not_served', entry === undefined ? message : `${message}. ${entry.reason}`);
  }
  const { status } = error;
  const id = requestId(req.headers, res);
  const dialect = dialectOf(req);
  setRequestId(res, id, dialect);
  res.setHeader('cache-control', 'no-store');
  sendReply(req, res, { status, body: errorIn(dialect, error.toBody(), { status, requestId: id }) });
}

/** Makes an Express router. Without `next`, it answers requests for unknown paths with 404. */
export function createRouter(logger: Logger, paths: KnownPaths = { models: [] }): express.Router & GatewayRouter {
  const router = express.Router({ caseSensitive: true }) as express.Router & GatewayRouter & { handle: GatewayRouter };
  const handle = router.handle.bind(router);
  router.handle = (req, res, next) => {
    handle(req, res, next ?? (() => isAnswered(res, logger) || answerNotFound(req, res, paths)));
  };
  return router;
}

/** A request that Express has matched with a path. */
type MatchedRequest = IncomingMessage & { readonly params: Readonly<Record<string, string>> };

/** What a router calls for a request to one of its paths. */
interface RouteHandlers {
  /** Makes the handler of a route. */
  readonly answer: (route: Route) => (req: MatchedRequest, res: ServerResponse) => void;
  /** Answers a request that does not fit its path. */
  readonly refuse: (req: IncomingMessage, res: ServerResponse, error: GatewayError) => void;
}

/** A parameter that takes the rest of the path, because model ids contain slashes. */
const wildcard = '{model}';

/** A path of openapi.yaml as Express takes it. The wildcards of Express 4 and 5 differ; a regular expression works in both. */
function expressPath(template: string): string | RegExp {
  if (template.endsWith(wildcard)) return new RegExp(`^${template.replace(wildcard, '(.+?)')}/?$`);
  return template.replace(pathParameter, ':$1');
}

/** The parameters of a route in the path of a request, decoded, by their names in openapi.yaml. */
export function pathParams({ path }: Route, { params }: MatchedRequest): Readonly<Record<string, string>> {
  return path.endsWith(wildcard) ? { model: params[0] as string } : params;
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** A path of openapi.yaml as a regular expression that names its parameters. */
export function patternOf(template: string): RegExp {
  const escaped = template.replaceAll('.', '\\.');
  const source = escaped.replace(pathParameter, (text, name) => `(?<${name}>${text === wildcard ? '.+' : '[^/]+'})`);
  return new RegExp(`^${source}/?$`);
}

/** The first parameter in a path that has a `%` which encodes no character. */
function malformedParameter(patterns: readonly RegExp[], path: string): string | undefined {
  for (const pattern of patterns) {
    const values = pattern.exec(path)?.groups ?? {};
    const name = Object.keys(values).find((key) => !isDecodable(values[key] as string));
    if (name !== undefined) return name;
  }
  return undefined;
}

function methodNotAllowed(routes: readonly Pick<Route, 'method'>[]): GatewayError {
  const allow = routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ');
  return new GatewayError('method_not_allowed', `This path takes ${allow}`, { headers: { allow } });
}

/**
 * Makes the middleware of a path that has no operation: it answers GET and HEAD, refuses other methods, and leaves OPTIONS to the host.
 * @param setHeaders sets the headers that errors have, too
 */
export function answerReads(
  { openRequests, logger }: { readonly openRequests: OpenRequests; readonly logger: Logger },
  send: (req: express.Request, res: express.Response) => unknown,
  setHeaders?: (req: IncomingMessage, res: ServerResponse) => void,
): express.RequestHandler {
  return async (req, res, next) => {
    if (req.method === 'OPTIONS') return next();
    if (isAnswered(res, logger)) return;
    const id = requestId(req.headers, res);
    try {
      res.setHeader('x-request-id', id);
      setHeaders?.(req, res);
      const client = new ClientDisconnect(res, () => openRequests.delete(res));
      if (!client.disconnected) openRequests.add(res);
      requireOneHost(req.headers, req.rawHeaders);
      if (req.method !== 'GET' && req.method !== 'HEAD') throw methodNotAllowed([{ method: 'GET' }]);
      await send(req, res);
    } catch (error) {
      answerError(req, res, error, { requestId: id, logger });
    }
  };
}

/** Whether a request wants to become a WebSocket (RFC 6455, section 4.1). A proxy may have taken `Upgrade` away, which is for one hop only. */
function asksForWebSocket({ method, httpVersionMajor, headers }: IncomingMessage): boolean {
  if (method !== 'GET' || httpVersionMajor !== 1) return false;
  const protocols = headers.upgrade?.toLowerCase().split(',') ?? [];
  return protocols.some((protocol) => protocol.trim() === 'websocket') || headers['sec-websocket-key'] !== undefined;
}

/**
 * OpenAI's clients that try a WebSocket first fall back to HTTP at once on 426 alone. `Upgrade` names what this path does take (RFC 9110,
 * section 15.5.22), and needs `Connection` beside it (section 7.8).
 */
function upgradeError(code: 'websocket_not_served' | 'websocket_required', message: string): GatewayError {
  const upgrade = code === 'websocket_required' ? 'websocket' : 'HTTP/1.1';
  return new GatewayError(code, message, { headers: { upgrade, connection: 'Upgrade' } });
}

const noWebSocket =
  'This path takes no WebSocket: send the request over HTTP. Streams are server-sent events ("stream": true)';

/** What is wrong with a request over HTTP to a path that takes WebSockets alone. */
function notOverHttp(req: IncomingMessage): GatewayError {
  if (req.method !== 'GET' && req.method !== 'HEAD') return methodNotAllowed([{ method: 'GET' }]);
  if (!asksForWebSocket(req))
    return upgradeError('websocket_required', 'This path takes WebSockets alone: open one here');
  // it comes to the router where nobody has given it to the gateway, or without its `Upgrade`
  const message =
    'No WebSocket came to the gateway: its operator calls gateway.attach(server), and a proxy in front passes Upgrade on';
  return upgradeError('websocket_not_served', message);
}

/** The paths of openapi.yaml that take WebSockets, and no request over HTTP. */
export function socketPaths({ paths }: Spec): string[] {
  return Object.keys(paths).filter((path) => {
    const item = paths[path];
    return item?.['x-websocket'] !== undefined && specMethods.every((method) => item[method] === undefined);
  });
}

/** Paths without parameters first: they are the frequent ones, and Express compares a request with each path until one matches. */
function groupByPath(routes: readonly Route[]): Map<string, Route[]> {
  const paths = new Map<string, Route[]>();
  const hasParameters = ({ path }: Route) => path.includes('{');
  for (const route of [...routes.filter((each) => !hasParameters(each)), ...routes.filter(hasParameters)]) {
    paths.set(route.path, [...(paths.get(route.path) ?? []), route]);
  }
  return paths;
}

/**
 * Adds routes to an Express router. It leaves unknown paths to the host, and OPTIONS, which the host's CORS answers. As in Express by
 * default, HEAD is GET and one trailing slash is ignored. Of unknown paths it answers only its own with `/v1` twice.
 */
export function addRoutes(
  router: express.Router,
  { routes, sockets }: { readonly routes: readonly Route[]; readonly sockets: readonly string[] },
  { answer, refuse }: RouteHandlers,
): void {
  const refuseWith =
    (errorFor: (req: IncomingMessage) => GatewayError): express.RequestHandler =>
    (req, res, next) => {
      if (req.method === 'OPTIONS') next();
      else refuse(req, res, errorFor(req));
    };
  const paths = groupByPath(routes);
  for (const [template, methods] of paths) {
    const path = router.route(expressPath(template));
    path.get((req, res, next) => {
      if (asksForWebSocket(req)) refuse(req, res, upgradeError('websocket_not_served', noWebSocket));
      else next();
    });
    for (const route of methods) {
      path[route.method.toLowerCase() as 'get']<MatchedRequest['params']>(answer(route));
    }
    path.all(refuseWith(() => methodNotAllowed(methods)));
  }
  for (const path of sockets) router.all(expressPath(path), refuseWith(notOverHttp));
  const patterns = [...paths.keys(), ...sockets].map(patternOf);
  // a client adds `/v1` to a base URL that has it already
  router.all(/^\/v1\/v1\//, (req, res, next) => {
    const path = pathOf(req);
    const meant = path.slice('/v1'.length);
    if (req.method === 'OPTIONS' || !patterns.some((pattern) => pattern.test(meant))) return next();
    const message = `The base URL already ends in /v1: send ${req.method} ${meant}, and not ${path}`;
    refuse(req, res, new GatewayError('endpoint_not_served', message));
  });
  router.use(((error, req, res, next) => {
    const param = malformedParameter(patterns, pathOf(req));
    if (param === undefined || req.method === 'OPTIONS') return next();
    const message = `${param}: has a % in the path that encodes no character`;
    refuse(req, res, new GatewayError('invalid_value', message, { param, cause: error }));
  }) satisfies express.ErrorRequestHandler);
}

/** One operation of openapi.yaml, with its handler. */
export interface Route {
  /** In capitals. */
  readonly method: string;
  /** A template, `/v1/webhooks/{id}`. */
  readonly path: string;
  readonly operation: Operation;
  readonly description: SpecOperation;
  /** The scope that a key must have. */
  readonly scope: Scope;
  /** The media types a body may have; empty where the operation takes none. */
  readonly mediaTypes: ReadonlySet<string>;
  readonly bodyRequired: boolean;
  /** Its parameters, with `$ref`s resolved, and without the patterns of ids. */
  readonly parameters: readonly SpecSchema[];
  readonly query: readonly string[];
}

/** The handler of each operation, by the operationId in openapi.yaml. */
export type Operations = Readonly<Record<string, Operation>>;

/** A parameter in the template of a path. */
export const pathParameter = /\{(\w+)\}/g;

/** Every operation must name its scope. */
function scopeOf({ operationId, 'x-scope': scope }: SpecOperation): Scope {
  const knownScope = scopes.find((name) => name === scope);
  if (!knownScope)
    throw new Error(`openapi.yaml: the operation ${operationId} needs an x-scope out of ${scopes.join(', ')}`);
  return knownScope;
}

/** What begins the patterns of ids: of the gateway's own, and of those that upstreams give. */
const idPattern = /^\^([a-z]+_|\[A-Za-z0-9_:-\])/;

/** A handler answers for an id that cannot exist as for one that does not exist, or with its own message. */
function withoutIdPattern({ schema, ...parameter }: SpecSchema): SpecSchema {
  const { pattern, ...rest } = schema as SpecSchema;
  return { ...parameter, schema: idPattern.test(String(pattern)) ? rest : schema };
}

/** Joins every operation of openapi.yaml with its handler. @throws Error when one has none */
export function joinRoutes(spec: Spec, operations: Operations): Route[] {
  return Object.entries(spec.paths).flatMap(([path, item]) =>
    specMethods.flatMap((method): Route[] => {
      const description = item[method];
      if (!description) return [];
      const { operationId } = description;
      const operation = Object.hasOwn(operations, operationId) ? operations[operationId] : undefined;
      if (!operation) throw new Error(`openapi.yaml has the operation ${operationId}, which has no handler`);
      const declared = [...(item.parameters ?? []), ...(description.parameters ?? [])];
      const parameters = declared.map((parameter) => withoutIdPattern(resolveSchema(spec, parameter)));
      return [
        {
          method: method.toUpperCase(),
          path,
          operation,
          description,
          scope: scopeOf(description),
          mediaTypes: new Set(Object.keys(bodiesOf(description))),
          bodyRequired: description.requestBody?.required === true,
          parameters,
          query: parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => String(name)),
        },
      ];
    }),
  );
}

/** The paths of the model endpoints, each once, without those below another. */
export function modelPaths(spec: Spec, operations: Operations): string[] {
  const paths = joinRoutes(spec, operations)
    .filter(isModelRoute)
    .map(({ path }) => path);
  return [...new Set(paths)].filter((path) => !paths.some((other) => path.startsWith(`${other}/`)));
}

/** Whether a route passes a provider's answer on, byte by byte. */
export function isRelayed({ operation }: Route): boolean {
  return 'relay' in operation;
}

/** What is read of a body that a host has described, beside what it describes; `undefined` for a body that openapi.yaml describes. */
export function readsOf({ operation }: Route): readonly string[] | undefined {
  return 'relay' in operation ? operation.reads : undefined;
}

/** Whether a route calls or lists models, which works without the database. */
export function isModelRoute({ operation, scope }: Route): boolean {
  return scope === 'models' && ('relay' in operation || operation.databaseWait === null);
}
