import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Reply } from '../operation.ts';
import { sendBeforeBody } from './unread-body.ts';

/** Answers with JSON, whatever has become of the request's body. Does nothing when the client has left. */
export function sendReply(req: IncomingMessage, res: ServerResponse, { status, body, headers }: Reply): void {
  if (res.destroyed) return;
  // text goes out with the head in one piece; bytes would be a second one
  const text = JSON.stringify(body);
  res.statusCode = status;
  for (const name in headers) res.setHeader(name, headers[name] as string);
  res.setHeader('content-type', 'application/json');
  res.setHeader('content-length', Buffer.byteLength(text));
  sendBeforeBody(req, res, text);
}
