import type { IncomingMessage, ServerResponse } from 'node:http';
import { GatewayError } from '../errors.ts';
import { AccountTurns } from '../fairness/account-turns.ts';
import type { Spec } from '../openapi/spec.ts';
import type { Logger } from '../options/options.ts';
import type { LimitAccount } from './account-limits.ts';
import { requireScope } from './authentication/principal.ts';
import { ClientDisconnect } from './client-disconnect.ts';
import { createMatcher, type Match } from './match.ts';
import { OpenRequests } from './open-requests.ts';
import type { ApiRequest, DataOperation, Principal, Reply } from './operation.ts';
import { createRequestReader } from './read-request.ts';
import { answerError, isAnswered } from './reply/answer-error.ts';
import { sendReply } from './reply/reply.ts';
import { requestId } from './request-id.ts';
import { isOfModels, isRead, isWrite, joinRoutes, type Operations, type Route } from './routes.ts';
import { originForm, requireOneHost } from './target.ts';

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
  /** How many bytes of bodies may be in memory at once. @default no limit */
  readonly bodyMemory?: number;
  /** Called before the body of a request that changes something is read. @default no limit */
  readonly limitWrites?: LimitAccount;
  /** The same for a request that reads. @default no limit */
  readonly limitReads?: LimitAccount;
  /** How long a body may take to arrive, in milliseconds. @default 120_000 */
  readonly bodyTimeout?: number;
  /** Where the requests under way are counted. @default nowhere else */
  readonly openRequests?: OpenRequests;
  readonly logger: Logger;
}

/** How many reads of one account run at once, in this process. */
const readsAtOnce = 8;
/**
 * How much of the authentication counts as waiting for the database, at most: a host's own function may wait for something
 * else. Milliseconds.
 */
const longestRecognition = 1_500;

/** Middleware that Express 4 and Express 5 take alike, at the root or under a prefix. */
export type Edge = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

/** Says who makes a request, before its body is read. @throws GatewayError when nobody is known to */
export type RequirePrincipal = (req: IncomingMessage, isModelCall: boolean) => Promise<Principal>;

/** Makes the middleware of one place where the API is mounted. */
export type Api = (authenticate: RequirePrincipal) => Edge;

/** A request for one of our paths. */
interface Asked {
  readonly found: Match<Route>;
  readonly authenticate: RequirePrincipal;
}

/** @throws GatewayError `method_not_allowed` or `invalid_value` when the path is ours and the request does not fit it */
function requireRoute(found: Match<Route>): Extract<Match<Route>, { kind: 'route' }> {
  switch (found.kind) {
    case 'route':
      return found;
    case 'method_not_allowed':
      throw new GatewayError('method_not_allowed', `This path takes ${found.allow}`, {
        headers: { allow: found.allow },
      });
    case 'malformed_parameter':
      throw new GatewayError('invalid_value', `${found.param}: has a % in the path that encodes no character`, {
        param: found.param,
      });
  }
}

/**
 * Makes the middleware that every request to the API goes through. It answers what is under our paths, errors too, and
 * leaves everything else to the host, untouched.
 * @throws Error when openapi.yaml is not valid, or has an operation without a handler
 */
export async function createApi(deps: ApiDependencies): Promise<Api> {
  const {
    spec,
    withDatabase = (work) => work(),
    logger,
    bodyTimeout: time = 120_000,
    openRequests = new OpenRequests(),
  } = deps;
  const routes = joinRoutes(spec, deps.operations);
  const match = createMatcher(routes);
  const readTurns = new AccountTurns(readsAtOnce);
  const readRequest = await createRequestReader({
    spec,
    routes,
    relayedLimits: { bytes: deps.modelBodyLimit, time },
    otherLimits: { bytes: deps.webhookBodyLimit, time },
    bodyMemory: deps.bodyMemory ?? Number.POSITIVE_INFINITY,
    openRequests,
    logger,
  });

  /** @param waited how long the request has waited for the database already, in milliseconds */
  function reply({ handle, databaseWait }: DataOperation, request: ApiRequest, waited: number): Promise<Reply> {
    return databaseWait === null ? handle(request) : withDatabase(() => handle(request), databaseWait, waited);
  }

  /** Does nothing for a client that disconnects before its turn comes. */
  function replyInTurn(operation: DataOperation, request: ApiRequest, waited: number): Promise<Reply | undefined> {
    const readyAt = performance.now();
    return readTurns.run(request.principal.userId, async () =>
      request.client.disconnected ? undefined : reply(operation, request, waited + performance.now() - readyAt),
    );
  }

  async function answer(req: IncomingMessage, res: ServerResponse, { found, authenticate }: Asked): Promise<void> {
    const id = requestId(req, res);
    const client = new ClientDisconnect(res);
    try {
      res.setHeader('x-request-id', id);
      // everything below /v1 belongs to one account
      res.setHeader('cache-control', 'no-store');
      openRequests.add(res);
      requireOneHost(req);
      const { route, params } = requireRoute(found);
      const askedAt = performance.now();
      const principal = await authenticate(req, isOfModels(route));
      const waited = Math.min(performance.now() - askedAt, longestRecognition);
      requireScope(principal, route.scope);
      if (isWrite(route)) await deps.limitWrites?.(principal.userId);
      if (isRead(route)) await deps.limitReads?.(principal.userId);
      if (client.disconnected) return;
      const request = await readRequest(req, res, { route, caller: { requestId: id, principal, params, client } });
      if ('relay' in route.operation) await route.operation.relay(request, res);
      else {
        const inTurn = isRead(route) && !isOfModels(route);
        const replied = await (inTurn ? replyInTurn : reply)(route.operation, request, waited);
        if (replied) sendReply(req, res, replied);
      }
    } catch (error) {
      if (!client.disconnected) answerError(req, res, error, { requestId: id, logger });
    }
  }

  return (authenticate) => (req, res, next) => {
    const found = match(req.method ?? '', originForm(req.url ?? ''));
    if (!found) next();
    else if (!isAnswered(res, logger)) void answer(req, res, { found, authenticate });
  };
}
