import type { IncomingMessage, ServerResponse } from 'node:http';
import { GatewayError } from '../errors.ts';
import type { Logger } from '../options/options.ts';
import type { Edge } from './edge.ts';
import { isAnswered } from './reply/answer-error.ts';
import { sendReply } from './reply/reply.ts';
import { requestId } from './request-id.ts';
import { originForm } from './target.ts';

/**
 * What a host mounts: middleware for Express 4 and 5, which also works as a listener of `node:http`.
 * @param next gets every request that is not the gateway's. @default such a request is answered 404 `not_found`
 */
export type Router = (req: IncomingMessage, res: ServerResponse, next?: () => void) => void;

function answerNotFound(req: IncomingMessage, res: ServerResponse): void {
  const [path] = originForm(req.url ?? '').split('?', 1);
  const error = new GatewayError('not_found', `There is no ${req.method} ${path} here; everything is under /v1`);
  res.setHeader('x-request-id', requestId(req, res));
  res.setHeader('cache-control', 'no-store');
  sendReply(req, res, { status: error.status, body: error.toBody() });
}

/** Answers 404 where there is no `next` that takes what the edge does not. */
export function createRouter(edge: Edge, logger: Logger): Router {
  const end = (req: IncomingMessage, res: ServerResponse) => {
    if (!isAnswered(res, logger)) answerNotFound(req, res);
  };
  return (req, res, next = () => end(req, res)) => edge(req, res, next);
}
