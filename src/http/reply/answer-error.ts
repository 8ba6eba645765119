import type { IncomingMessage, ServerResponse } from 'node:http';
import { describeThrown, type ErrorCode, longSecrets, redact } from '../../errors.ts';
import type { Logger } from '../../options/options.ts';
import { readError } from './read-error.ts';
import { sendReply } from './reply.ts';

/** Request headers whose values an error's text might quote. */
const credentialHeaders = ['authorization', 'proxy-authorization', 'cookie', 'x-api-key'] as const;

/** The credentials of a request, one by one, longest first. */
function credentialsOf(req: IncomingMessage): string[] {
  return longSecrets(credentialHeaders.flatMap((name) => String(req.headers[name] ?? '').split(/[\s;,]+/)));
}

function stackOf(thrown: unknown): string | undefined {
  try {
    return thrown instanceof Error ? String(thrown.stack ?? '') : undefined;
  } catch {
    return undefined;
  }
}

/**
 * What a log may hold of an error: name, message and stack, never its other properties (an HTTP client's error
 * carries the whole request), and none of the caller's credentials.
 */
function loggable(thrown: unknown, req: IncomingMessage): Record<string, unknown> {
  const secrets = credentialsOf(req);
  const stack = stackOf(thrown);
  return {
    error: redact(describeThrown(thrown), secrets),
    ...(stack !== undefined && { stack: redact(stack, secrets) }),
  };
}

/** What {@link answerError} needs beside the request. */
export interface ErrorContext {
  readonly requestId: string;
  readonly logger: Logger;
}

/**
 * Answers whatever was thrown: a GatewayError as itself, anything else as `internal_error`, whose cause is logged and not
 * sent to the client. If an answer has already begun, the connection is closed instead, so that the client does not take
 * the incomplete answer for a complete one. Never throws.
 * @returns the error's code
 */
export function answerError(
  req: IncomingMessage,
  res: ServerResponse,
  thrown: unknown,
  { requestId, logger }: ErrorContext,
): ErrorCode {
  const { status, code, body, headers, cause, flaw } = readError(thrown);
  if (status === 500 || flaw !== undefined) {
    logger.error('a request failed', { requestId, code, ...(flaw && { flaw }), ...loggable(cause, req) });
  }
  if (res.writableEnded) return code;
  try {
    if (res.headersSent) res.destroy();
    else sendReply(req, res, { status, body, headers });
  } catch (error) {
    // other middleware may have changed the response so that it cannot be sent
    logger.error('an error could not be answered', { requestId, ...loggable(error, req) });
    res.destroy();
  }
  return code;
}

/** Whether the host has answered a request and then called `next()`; its answer is kept. */
export function isAnswered(res: ServerResponse, logger: Logger): boolean {
  if (!res.headersSent) return false;
  logger.error(
    'a request was answered already when it came to the gateway; the host must not call next() after answering',
  );
  return true;
}
