import type { IncomingMessage, ServerResponse } from 'node:http';
import type express from 'express';
import { type Dialect, type ErrorCode, GatewayError } from '../errors.ts';
import { AccountMemory, AccountTurns, MemoryReservation } from '../fairness/account-shares.ts';
import { MinuteWindows, untilNextMinute } from '../fairness/minute-windows.ts';
import type { Spec } from '../openapi/spec.ts';
import type { Logger } from '../options/options.ts';
import type { Principal } from '../options/principal.ts';
import { endRequestSpan, inSpan, startRequestSpan } from '../tracing/spans.ts';
import { requireScope } from './authentication.ts';
import { BodyBuffer } from './body/read-body.ts';
import type { ApiRequest, DataOperation, EndedRequest, RelayNote, Reply, RequestObserver } from './operation.ts';
import { createRequestReader, type ReadRequest } from './read-request.ts';
import { answerError, sendReply } from './reply.ts';
import {
  ClientDisconnect,
  dialectOf,
  isAnswered,
  OpenRequests,
  requestId,
  requireOneHost,
  setRequestId,
} from './request.ts';
import {
  addRoutes,
  isModelRoute,
  isRelayed,
  joinRoutes,
  type Operations,
  pathParams,
  type Route,
  socketPaths,
} from './router.ts';

/** What {@link createApi} joins. Sizes are bytes. */
export interface ApiDependencies {
  readonly spec: Spec;
  readonly operations: Operations;
  /** Runs what needs the database, within a time limit. @default no time limit */
  readonly withDatabase?: (work: () => Promise<Reply>, maxWait?: number, waited?: number) => Promise<Reply>;
  /** The largest body of a relayed operation. */
  readonly modelBodyLimit: number;
  /** The largest body of any other operation. */
  readonly webhookBodyLimit: number;
  /** The largest body that goes up as it comes. @default no limit */
  readonly streamLimit?: number;
  /** Where bodies are counted while they are in memory. @default no limit */
  readonly bodyMemory?: AccountMemory;
  /** Called before the body of a request that changes something is read. @default no limit */
  readonly limitWrites?: LimitAccount;
  /** The same for a request that reads. @default no limit */
  readonly limitReads?: LimitAccount;
  /** How long a body may take to arrive, in milliseconds. @default 120_000 */
  readonly bodyTimeout?: number;
  /** Where the requests under way are counted. @default nowhere else */
  readonly openRequests?: OpenRequests;
  /** Told of each request that has ended. @default none */
  readonly observers?: readonly RequestObserver[];
  readonly logger: Logger;
}

/** How many reads of one account run at once, in this process. */
const readsAtOnce = 8;
/**
 * How much of the authentication counts as waiting for the database, at most: a host's own function may wait for something
 * else. Milliseconds.
 */
const maxAuthenticationWait = 1_500;

/** Says who makes a request, before its body is read. @throws GatewayError if that is not known */
type RequirePrincipal = (req: IncomingMessage, isModelCall: boolean) => Promise<Principal>;

/** Adds every path of the API to a router whose paths are case-sensitive. */
export type AddApi = (router: express.Router, authenticate: RequirePrincipal) => void;

/** A route, and what is the same for all requests to it. */
interface ServedRoute {
  readonly route: Route;
  readonly authenticate: RequirePrincipal;
  readonly isModelRoute: boolean;
  /** Counts a request of an account; `undefined` where none is counted. */
  readonly limit: LimitAccount | undefined;
}

/** A request for one of our paths: for a route of it, or one that the path refuses. */
type RouteMatch =
  | { readonly served: ServedRoute; readonly params: Readonly<Record<string, string>> }
  | { readonly refusal: GatewayError };

/** The API of a route's upstreams, if it says so itself. */
function dialectIn(match: RouteMatch): Dialect | undefined {
  if ('refusal' in match) return undefined;
  const { operation } = match.served.route;
  return 'relay' in operation ? operation.dialect : undefined;
}

/** What counts the requests of a route. What changes something counts as a write, but for model calls and what the operator's services publish. */
function limitOf(route: Route, { limitReads, limitWrites }: ApiDependencies): LimitAccount | undefined {
  if (route.method === 'GET') return limitReads;
  return isRelayed(route) || route.scope === 'events:publish' ? undefined : limitWrites;
}

/** Makes the function that has an operation reply to a request. It gives `undefined` for a client that disconnects before its turn. */
function createRunOperation({ withDatabase = (work) => work() }: ApiDependencies) {
  const readTurns = new AccountTurns(readsAtOnce);

  /** @param waited how long the request has waited for the database already, in milliseconds */
  return async (
    { handle, databaseWait }: DataOperation,
    route: Route,
    request: ApiRequest,
    waited: number,
  ): Promise<Reply | undefined> => {
    const run = (waitedInAll: number) =>
      databaseWait === null ? handle(request) : withDatabase(() => handle(request), databaseWait, waitedInAll);
    if (route.method !== 'GET' || isModelRoute(route)) return run(waited);
    const readyAt = performance.now();
    return readTurns.run(request.principal.userId, async () =>
      request.client.disconnected ? undefined : run(waited + performance.now() - readyAt),
    );
  };
}

/** Makes the function that takes a request through all its steps, and answers it. */
function createAnswer(deps: ApiDependencies, openRequests: OpenRequests, readRequest: ReadRequest) {
  const { logger, observers = [], bodyMemory = new AccountMemory() } = deps;
  const runOperation = createRunOperation(deps);

  async function respond(
    req: IncomingMessage,
    res: ServerResponse,
    match: RouteMatch,
    span: ReturnType<typeof startRequestSpan>,
  ): Promise<void> {
    const startedAt = performance.now();
    // read once: where Express has changed its prototype, each access costs as much as hundreds of others
    const { headers, method = '' } = req;
    const id = requestId(headers, res);
    const dialect = dialectIn(match) ?? dialectOf(req);
    let buffer: BodyBuffer | undefined;
    const client = new ClientDisconnect(res, () => {
      openRequests.delete(res);
      buffer?.release();
    });
    const relayed: RelayNote = {};
    let principal: Principal | undefined;
    let code: ErrorCode | undefined;
    try {
      setRequestId(res, id, dialect);
      // everything below /v1 belongs to one account
      res.setHeader('cache-control', 'no-store');
      if (!client.disconnected) openRequests.add(res);
      requireOneHost(headers, req.rawHeaders);
      if ('refusal' in match) throw match.refusal;
      const { served, params } = match;
      const { route, limit } = served;
      const authenticatingSince = performance.now();
      principal = await served.authenticate(req, served.isModelRoute);
      const waited = Math.min(performance.now() - authenticatingSince, maxAuthenticationWait);
      requireScope(principal, route.scope);
      limit?.(principal.userId);
      if (client.disconnected) return;
      buffer = new BodyBuffer(new MemoryReservation(bodyMemory, principal.userId));
      const head = { requestId: id, dialect, principal, params, client, relayed, headers };
      const request = await readRequest(req, route, head, buffer);
      if ('relay' in route.operation) await route.operation.relay(request, res);
      else {
        const reply = await runOperation(route.operation, route, request, waited);
        if (reply) sendReply(req, res, reply);
      }
    } catch (error) {
      // keep nothing of the body, however long the error's answer takes
      buffer?.release();
      buffer = undefined;
      if (!client.disconnected) code = answerError(req, res, error, { requestId: id, dialect, logger });
    } finally {
      const ended: EndedRequest = {
        requestId: id,
        method,
        operation: 'refusal' in match ? 'none' : match.served.route.description.operationId,
        principal,
        status: res.headersSent ? res.statusCode : undefined,
        code,
        clientDisconnected: client.disconnected,
        durationMs: performance.now() - startedAt,
        relayed,
      };
      if (span) endRequestSpan(span, ended);
      for (const observer of observers) observer.ended(ended);
    }
  }

  return function answer(req: IncomingMessage, res: ServerResponse, match: RouteMatch): void {
    if (isAnswered(res, logger)) return;
    const span = startRequestSpan(req.method ?? '', 'refusal' in match ? undefined : match.served.route.path);
    void inSpan(span, () => respond(req, res, match, span));
  };
}

/**
 * Makes the routes of the API. They answer what is under our paths, errors too, and leave everything else to the host, untouched.
 * All are in one router, because a router that has no route for a request waits for a turn of the event loop before it says so. A second
 * router costs a relayed call 0.7 µs of CPU, and each request of the host's own a turn of the event loop and 2.2 µs.
 * @throws Error when openapi.yaml is not valid, or has an operation without a handler
 */
export function createApi(deps: ApiDependencies): AddApi {
  const { spec, logger, bodyTimeout: time = 120_000, openRequests = new OpenRequests() } = deps;
  const routes = joinRoutes(spec, deps.operations);
  const readRequest = createRequestReader({
    spec,
    routes,
    relayedLimits: { bytes: deps.modelBodyLimit, time },
    otherLimits: { bytes: deps.webhookBodyLimit, time },
    streamLimits: { bytes: deps.streamLimit ?? Number.POSITIVE_INFINITY, time },
    openRequests,
    logger,
  });
  const answer = createAnswer(deps, openRequests, readRequest);
  return (router, authenticate) =>
    addRoutes(
      router,
      { routes, sockets: socketPaths(spec) },
      {
        answer: (route) => {
          const own = 'relay' in route.operation ? route.operation.authenticate : undefined;
          const served: ServedRoute = {
            route,
            authenticate: own ? (req, isModelCall) => own(req, () => authenticate(req, isModelCall)) : authenticate,
            isModelRoute: isModelRoute(route),
            limit: limitOf(route, deps),
          };
          return (req, res) => answer(req, res, { served, params: pathParams(route, req) });
        },
        refuse: (req, res, refusal) => answer(req, res, { refusal }),
      },
    );
}

/**
 * Counts one request of an account.
 * @throws GatewayError `rate_limit_exceeded` with `retry-after`, in seconds, when the account is over its limit
 */
type LimitAccount = (userId: string) => void;

function createAccountLimit(perMinute: number, what: string): LimitAccount {
  const startedAt = performance.now();
  const windows = new MinuteWindows(() => ({ requests: 0 }));
  return function limitAccount(userId) {
    const now = performance.now() - startedAt;
    const counter = windows.of(userId, now);
    counter.requests += 1;
    if (counter.requests <= perMinute) return;
    const seconds = Math.max(1, Math.ceil(untilNextMinute(now) / 1_000));
    throw new GatewayError(
      'rate_limit_exceeded',
      `This account may make ${perMinute} ${what} a minute; try again in ${seconds} s`,
      { headers: { 'retry-after': String(seconds) } },
    );
  };
}

/** Limits how many changes one account may make in a minute, in this process: every change costs the database a majority write. */
export const createWriteLimit = (perMinute: number): LimitAccount => createAccountLimit(perMinute, 'changes');

/** Limits how often one account may read in a minute, in this process: every read costs the database a few queries. */
export const createReadLimit = (perMinute: number): LimitAccount => createAccountLimit(perMinute, 'reads');
