import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Reply } from '../operation.ts';
import { sendBeforeBody } from './unread-body.ts';

/** Answers with JSON, whether or not the request's body has been read. Does nothing when the client has disconnected. */
export function sendReply(req: IncomingMessage, res: ServerResponse, { status, body, headers }: Reply): void {
  if (res.destroyed) return;
  // Node sends a text together with the headers, and a Buffer as a second write
  const text = JSON.stringify(body);
  res.statusCode = status;
  for (const name in headers) res.setHeader(name, headers[name] as string);
  res.setHeader('content-type', 'application/json');
  res.setHeader('content-length', Buffer.byteLength(text));
  sendBeforeBody(req, res, text);
}
