import type { IncomingMessage, ServerResponse } from 'node:http';
import { newId } from '../../ids.ts';

/** Short, and safe to put into a header, a log line or a URL. */
const safeId = /^[A-Za-z0-9._-]{1,64}$/;

function isSafe(id: unknown): id is string {
  return typeof id === 'string' && safeId.test(id);
}

/**
 * The id of a request: the one that the host has already set on the answer, else the client's own `x-request-id`, else a
 * new one. The first two count only if they are short plain tokens.
 */
export function requestId(req: IncomingMessage, res: ServerResponse): string {
  const fromHost = res.getHeader('x-request-id');
  if (isSafe(fromHost)) return fromHost;
  const fromClient = req.headers['x-request-id'];
  return isSafe(fromClient) ? fromClient : newId('req', Date.now());
}
