import type { IncomingMessage, ServerResponse } from 'node:http';
import express from 'express';
import { GatewayError } from '../errors.ts';
import type { Logger } from '../options/options.ts';
import { isAnswered } from './reply/answer-error.ts';
import { sendReply } from './reply/reply.ts';
import { requestId } from './request/request-id.ts';
import { pathOf } from './request/target.ts';

/**
 * What a host mounts: an Express router, which also works as a listener of `node:http`.
 * @param next gets every request that is not the gateway's. @default such a request is answered 404:
 * `endpoint_not_served` below `/v1`, `not_found` elsewhere
 */
export type GatewayRouter = (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void) => void;

function notFound({ method }: IncomingMessage, path: string, modelPaths: readonly string[]): GatewayError {
  if (!/^\/v1(?:\/|$)/.test(path)) {
    return new GatewayError('not_found', `There is no ${method} ${path} here; the API is under /v1`);
  }
  const served = `the model endpoints are ${modelPaths.join(', ')}`;
  return new GatewayError('endpoint_not_served', `This gateway does not serve ${method} ${path}; ${served}`);
}

function answerNotFound(req: IncomingMessage, res: ServerResponse, modelPaths: readonly string[]): void {
  const error = notFound(req, pathOf(req), modelPaths);
  res.setHeader('x-request-id', requestId(req, res));
  res.setHeader('cache-control', 'no-store');
  sendReply(req, res, { status: error.status, body: error.toBody() });
}

/**
 * Makes an Express router. Without `next`, it answers requests for unknown paths with 404.
 * @param modelPaths the paths of the model endpoints, which the answer names
 */
export function createRouter(logger: Logger, modelPaths: readonly string[] = []): express.Router & GatewayRouter {
  const router = express.Router({ caseSensitive: true }) as express.Router & GatewayRouter & { handle: GatewayRouter };
  const handle = router.handle.bind(router);
  router.handle = (req, res, next) =>
    handle(req, res, next ?? (() => isAnswered(res, logger) || answerNotFound(req, res, modelPaths)));
  return router;
}
