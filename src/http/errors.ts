import type { IncomingMessage, ServerResponse } from 'node:http';
import { GatewayError } from '../errors.ts';
import type { Logger } from '../options.ts';
import { sendReply } from './reply.ts';

/** Request headers whose values an error's text might quote. */
const credentialHeaders = ['authorization', 'proxy-authorization', 'cookie', 'x-api-key'] as const;

/** The credentials of a request, one by one, longest first. */
function credentialsOf(req: IncomingMessage): string[] {
  return credentialHeaders
    .flatMap((name) => String(req.headers[name] ?? '').split(/[\s;,]+/))
    .filter((part) => part.length >= 8)
    .sort((a, b) => b.length - a.length);
}

function redact(text: string, secrets: readonly string[]): string {
  return secrets.reduce((redacted, secret) => redacted.replaceAll(secret, '[redacted]'), text);
}

/**
 * What a log may hold of an error: name, message and stack, never its other properties (an HTTP client's error
 * carries the whole request), and none of the caller's credentials.
 */
function loggable(error: unknown, req: IncomingMessage): Record<string, unknown> {
  const secrets = credentialsOf(req);
  if (!(error instanceof Error)) return { error: redact(String(error), secrets) };
  return { error: `${error.name}: ${redact(error.message, secrets)}`, stack: redact(error.stack ?? '', secrets) };
}

function toGatewayError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  return new GatewayError('internal_error', 'The gateway failed; quote the x-request-id when you ask about it', {
    cause: error,
  });
}

/** RFC 9110, section 11.6.1: every 401 says how to authenticate. */
function headersOf(error: GatewayError): Readonly<Record<string, string>> {
  return error.status === 401 ? { 'www-authenticate': 'Bearer', ...error.headers } : error.headers;
}

/** What {@link answerError} needs to know about the request beside itself. */
export interface ErrorContext {
  readonly requestId: string;
  readonly logger: Logger;
}

/**
 * Answers an error, whatever was thrown: a GatewayError as itself, anything else as `internal_error`, told to the log
 * and not to the client. An answer that has begun already cannot turn into another: its connection is cut, so that nobody
 * takes the half for the whole.
 */
export function answerError(
  req: IncomingMessage,
  res: ServerResponse,
  thrown: unknown,
  { requestId, logger }: ErrorContext,
): void {
  const error = toGatewayError(thrown);
  if (error.status === 500) {
    logger.error('a request failed', { requestId, code: error.code, ...loggable(error.cause ?? error, req) });
  }
  if (res.writableEnded) return;
  if (res.headersSent) res.destroy();
  else sendReply(req, res, { status: error.status, body: error.toBody(), headers: headersOf(error) });
}
