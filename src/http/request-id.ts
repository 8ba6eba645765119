import type { IncomingMessage, ServerResponse } from 'node:http';
import { newId } from '../ids.ts';

/** Short, and safe to put into a header, a log line or a URL. */
const safeId = /^[A-Za-z0-9._-]{1,64}$/;

function isSafe(id: unknown): id is string {
  return typeof id === 'string' && safeId.test(id);
}

/**
 * The id that this request is known by: the one the host has put on the answer already,
 * else the client's own `x-request-id`, either only when it is a short plain token, else a new one.
 */
export function requestId(req: IncomingMessage, res: ServerResponse): string {
  const fromHost = res.getHeader('x-request-id');
  if (isSafe(fromHost)) return fromHost;
  const fromClient = req.headers['x-request-id'];
  return isSafe(fromClient) ? fromClient : newId('req', Date.now());
}
