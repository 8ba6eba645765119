import { type IncomingMessage, type ServerResponse, validateHeaderName, validateHeaderValue } from 'node:http';
import {
  type Dialect,
  describeThrown,
  type ErrorBody,
  type ErrorCode,
  errorIn,
  errorStatus,
  errorType,
  isError,
  isErrorCode,
  isGatewayError,
  longSecrets,
  redact,
} from '../errors.ts';
import type { Logger } from '../options/options.ts';
import type { Reply } from './operation.ts';
import { sendBeforeBody } from './request.ts';

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

/** Request headers whose values an error's text might quote. */
const credentialHeaders = ['authorization', 'proxy-authorization', 'cookie', 'x-api-key'] as const;

function stackOf(thrown: unknown): string | undefined {
  try {
    return isError(thrown) ? String(thrown.stack ?? '') : undefined;
  } catch {
    return undefined;
  }
}

/**
 * What a log may hold of an error: name, message and stack, never its other properties (an HTTP client's error
 * carries the whole request), and none of the caller's credentials.
 */
function loggable(thrown: unknown, req: IncomingMessage): Record<string, unknown> {
  const secrets = longSecrets(credentialHeaders.flatMap((name) => String(req.headers[name] ?? '').split(/[\s;,]+/)));
  const stack = stackOf(thrown);
  return {
    error: redact(describeThrown(thrown), secrets),
    ...(stack !== undefined && { stack: redact(stack, secrets) }),
  };
}

/**
 * Answers whatever was thrown: a GatewayError as itself, anything else as `internal_error`, whose cause is logged and not
 * sent to the client. If an answer has already begun, the connection is closed instead, so that the client does not take
 * the incomplete answer for a complete one. Never throws.
 * @param context.dialect in whose shape. @default OpenAI's
 * @returns the error's code
 */
export function answerError(
  req: IncomingMessage,
  res: ServerResponse,
  thrown: unknown,
  {
    requestId,
    dialect = 'openai',
    logger,
  }: { readonly requestId: string; readonly dialect?: Dialect; readonly logger: Logger },
): ErrorCode {
  const { status, code, body, headers, cause, flaw } = readError(thrown);
  if (status === 500 || flaw !== undefined) {
    logger.error('a request failed', { requestId, code, ...(flaw && { flaw }), ...loggable(cause, req) });
  }
  if (res.writableEnded) return code;
  try {
    if (res.headersSent) res.destroy();
    else sendReply(req, res, { status, body: errorIn(dialect, body, { status, requestId }), headers });
  } catch (error) {
    // other middleware may have changed the response so that it cannot be sent
    logger.error('an error could not be answered', { requestId, ...loggable(error, req) });
    res.destroy();
  }
  return code;
}

/** An error in the form that is answered. */
interface AnswerableError {
  readonly status: number;
  readonly code: ErrorCode;
  readonly body: ErrorBody;
  readonly headers: Readonly<Record<string, string>>;
  /** The underlying error, for the log. */
  readonly cause: unknown;
  /** What is wrong with the error itself, so that the host can fix it. */
  readonly flaw?: string;
}

/** Headers that the gateway sets itself; other values would make the answer unreadable. */
const ownHeaders = new Set(['content-length', 'content-type', 'content-encoding', 'transfer-encoding', 'trailer']);

function isSendable(name: string, value: unknown): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value as string);
    return (typeof value === 'string' || typeof value === 'number') && !ownHeaders.has(name.toLowerCase());
  } catch {
    return false;
  }
}

function answerable(code: ErrorCode, message: string, cause: unknown, flaw?: string): AnswerableError {
  const status = errorStatus[code];
  const body = { error: { message, type: errorType(status, code), param: null, code } };
  return { status, code, body, headers: {}, cause, ...(flaw !== undefined && { flaw }) };
}

function internalError(thrown: unknown, flaw?: string): AnswerableError {
  return answerable('internal_error', 'The gateway failed; quote the x-request-id when you ask about it', thrown, flaw);
}

/** The fields of a GatewayError, of this copy of the package or of another, as they may be where types are not checked. */
type Claimed = { readonly [Name in 'code' | 'message' | 'param' | 'headers' | 'cause']?: unknown };

function readGatewayError(thrown: Claimed): AnswerableError {
  const { code, message, param, headers, cause } = thrown;
  if (!isErrorCode(code)) {
    return internalError(thrown, `a GatewayError has the code ${describeThrown(code)}, which is none of ErrorCode`);
  }
  const sendable: Record<string, string> = {};
  const unsendable: string[] = [];
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (isSendable(name, value)) sendable[name] = String(value);
    else unsendable.push(name);
  }
  const flaw = `a GatewayError has headers that cannot be sent and were left out: ${unsendable.join(', ')}`;
  const text = typeof message === 'string' ? message : '';
  const error = answerable(code, text, cause ?? thrown, unsendable.length > 0 ? flaw : undefined);
  if (typeof param === 'string') error.body.error.param = param;
  // RFC 9110, section 11.6.1: every 401 says how to authenticate
  const required = error.status === 401 && { 'www-authenticate': 'Bearer' };
  return { ...error, headers: { ...required, ...sendable } };
}

/**
 * Reads whatever was thrown: a GatewayError as itself, as far as it can be sent, anything else as `internal_error`.
 * Never throws.
 */
function readError(thrown: unknown): AnswerableError {
  try {
    return isGatewayError(thrown) ? readGatewayError(thrown) : internalError(thrown);
  } catch {
    return internalError(thrown, 'what was thrown cannot be read');
  }
}
