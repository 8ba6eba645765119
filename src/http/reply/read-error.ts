import { validateHeaderName, validateHeaderValue } from 'node:http';
import {
  describeThrown,
  type ErrorBody,
  type ErrorCode,
  errorStatus,
  errorType,
  isErrorCode,
  isGatewayError,
} from '../../errors.ts';

/** An error in the form that is answered. */
export interface AnswerableError {
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

function internalError(thrown: unknown, flaw?: string): AnswerableError {
  const code = 'internal_error';
  const status = errorStatus[code];
  const message = 'The gateway failed; quote the x-request-id when you ask about it';
  return {
    status,
    code,
    body: { error: { message, type: errorType(status, code), param: null, code } },
    headers: {},
    cause: thrown,
    ...(flaw !== undefined && { flaw }),
  };
}

/** The fields of a GatewayError, of this copy of the package or of another, as they may be where types are not checked. */
type Claimed = { readonly [Name in 'code' | 'message' | 'param' | 'headers' | 'cause']?: unknown };

function readGatewayError({ code, message, param, headers, cause }: Claimed, thrown: unknown): AnswerableError {
  if (!isErrorCode(code)) {
    return internalError(thrown, `a GatewayError has the code ${describeThrown(code)}, which is none of ErrorCode`);
  }
  const entries = Object.entries((headers ?? {}) as Record<string, unknown>);
  const unsendable = entries.filter(([name, value]) => !isSendable(name, value)).map(([name]) => name);
  const sendable = entries.filter(([name]) => !unsendable.includes(name)).map(([name, value]) => [name, String(value)]);
  const status = errorStatus[code];
  const messageText = typeof message === 'string' ? message : '';
  return {
    status,
    code,
    body: {
      error: {
        message: messageText,
        type: errorType(status, code),
        param: typeof param === 'string' ? param : null,
        code,
      },
    },
    // RFC 9110, section 11.6.1: every 401 says how to authenticate
    headers: { ...(status === 401 && { 'www-authenticate': 'Bearer' }), ...Object.fromEntries(sendable) },
    cause: cause ?? thrown,
    ...(unsendable.length > 0 && {
      flaw: `a GatewayError has headers that cannot be sent and were left out: ${unsendable.join(', ')}`,
    }),
  };
}

/**
 * Reads whatever was thrown: a GatewayError as itself, as far as it can be sent, anything else as `internal_error`.
 * Never throws.
 */
export function readError(thrown: unknown): AnswerableError {
  try {
    return isGatewayError(thrown) ? readGatewayError(thrown, thrown) : internalError(thrown);
  } catch {
    return internalError(thrown, 'what was thrown cannot be read');
  }
}
