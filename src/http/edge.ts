import type { IncomingMessage, ServerResponse } from 'node:http';
import { GatewayError } from '../errors.ts';
import type { Logger } from '../options.ts';
import type { Spec } from '../spec.ts';
import { Departure } from './departure.ts';
import { answerError } from './errors.ts';
import { createMatcher, type Match } from './match.ts';
import type { OperationTable, Principal } from './operation.ts';
import { createCallReader } from './read-call.ts';
import { sendReply } from './reply.ts';
import { requestId } from './request-id.ts';
import { isWrite, joinRoutes, type Route } from './routes.ts';
import { requireScope } from './scope.ts';
import type { LimitWrites } from './write-limit.ts';

/** What {@link createEdge} joins. Sizes are bytes. */
export interface EdgeDependencies {
  readonly spec: Spec;
  readonly operations: OperationTable;
  /** Says whose request it is, before any body is read; `null` answers 401 `invalid_api_key`. */
  readonly authenticate: (req: IncomingMessage) => Principal | null | Promise<Principal | null>;
  /** The largest body of a relayed operation. */
  readonly modelBodyLimit: number;
  /** The largest body of any other operation. */
  readonly webhookBodyLimit: number;
  /** Asked before the body of a request that changes something is read. @default no limit */
  readonly limitWrites?: LimitWrites;
  /** How long a body may take to arrive, in milliseconds. @default 120_000 */
  readonly bodyTimeout?: number;
  readonly logger: Logger;
}

/** Middleware that Express 4 and Express 5 take alike, at the root or under a prefix. */
export type Edge = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

/** @throws GatewayError `method_not_allowed` or `invalid_value` when it is a path of ours, but no request for it */
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

function isPending<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as Promise<T> | null)?.then === 'function';
}

/**
 * Makes the one piece of Express middleware that every request to the API goes through.
 * What is not ours goes on to the host untouched; what is ours is answered here, errors too.
 * @throws Error when openapi.yaml does not load, or has an operation that nothing does
 */
export async function createEdge(deps: EdgeDependencies): Promise<Edge> {
  const { spec, authenticate, logger, bodyTimeout: time = 120_000 } = deps;
  const routes = joinRoutes(spec, deps.operations);
  const match = createMatcher(routes);
  const readCall = await createCallReader({
    spec,
    routes,
    relayedLimits: { bytes: deps.modelBodyLimit, time },
    otherLimits: { bytes: deps.webhookBodyLimit, time },
    logger,
  });

  async function answer(req: IncomingMessage, res: ServerResponse, found: Match<Route>): Promise<void> {
    const id = requestId(req, res);
    const departure = new Departure(res);
    res.setHeader('x-request-id', id);
    try {
      const { route, params } = requireRoute(found);
      const recognised = authenticate(req);
      // a body is cheapest to read when listening to it begins in the turn that its request came in
      const principal = isPending(recognised) ? await recognised : recognised;
      if (!principal)
        throw new GatewayError('invalid_api_key', 'This API key is not known, has expired or has been revoked');
      requireScope(principal, route.scope);
      if (isWrite(route)) await deps.limitWrites?.(principal.userId);
      const call = await readCall(req, route, { requestId: id, principal, params, departure });
      if ('relay' in route.operation) await route.operation.relay(call, res);
      else sendReply(req, res, await route.operation.handle(call));
    } catch (error) {
      if (!departure.hasLeft) answerError(req, res, error, { requestId: id, logger });
    }
  }

  return function edge(req, res, next) {
    const found = match(req.method ?? '', req.url ?? '');
    if (found) void answer(req, res, found);
    else next();
  };
}
