import { isNativeError, isPromise } from 'node:util/types';

/**
 * Every error code the gateway answers or throws, with its HTTP status.
 * The same list stands in openapi.yaml (`ErrorCode`); a test holds the two together.
 */
export const errorStatus = {
  // the caller's credentials
  missing_api_key: 401,
  invalid_api_key: 401,
  invalid_authorization: 401,
  insufficient_scope: 403,
  model_not_allowed: 403,
  budget_not_allowed: 403,
  cross_origin_request: 403,
  // what the account has left
  insufficient_credits: 402,
  // the request
  malformed_request: 400,
  invalid_json: 400,
  invalid_form: 400,
  invalid_encoding: 400,
  missing_required_parameter: 400,
  unknown_parameter: 400,
  invalid_type: 400,
  invalid_value: 400,
  duplicate_parameter: 400,
  number_not_exact: 400,
  url_not_allowed: 400,
  not_found: 404,
  endpoint_not_served: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  request_too_large: 413,
  unsupported_media_type: 415,
  expectation_failed: 417,
  websocket_not_served: 426,
  websocket_required: 426,
  headers_too_large: 431,
  // what it names
  webhook_not_found: 404,
  model_not_found: 404,
  response_not_found: 404,
  conversation_not_found: 404,
  chat_completion_not_found: 404,
  item_not_found: 404,
  file_not_found: 404,
  upload_not_found: 404,
  part_not_found: 404,
  vector_store_not_found: 404,
  batch_not_found: 404,
  fine_tuning_job_not_found: 404,
  container_not_found: 404,
  skill_not_found: 404,
  skill_version_not_found: 404,
  realtime_call_not_found: 404,
  api_key_not_found: 404,
  event_not_found: 404,
  delivery_not_found: 404,
  recovery_not_found: 404,
  webhook_limit_reached: 403,
  api_key_limit_reached: 403,
  file_limit_reached: 403,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  // events
  unknown_event_type: 400,
  invalid_event_data: 400,
  idempotency_conflict: 409,
  weak_write_concern: 400,
  publish_unconfirmed: 503,
  // deliveries
  attempt_in_flight: 409,
  webhook_inactive: 409,
  webhook_deleted: 409,
  event_deleted: 409,
  recovery_running: 409,
  // responses
  response_in_progress: 409,
  // upstreams
  upstream_unreachable: 502,
  upstream_auth_failed: 502,
  upstream_rate_limited: 429,
  upstream_error: 502,
  upstream_invalid_response: 502,
  upstream_disconnected: 502,
  upstream_timeout: 504,
  // the gateway itself
  invalid_options: 500,
  jobs_unavailable: 500,
  secret_unreadable: 500,
  internal_error: 500,
  overloaded: 503,
  shutting_down: 503,
  database_unavailable: 503,
} as const;

/** A stable, documented error code. */
export type ErrorCode = keyof typeof errorStatus;

/** What a {@link GatewayError} may carry beside its code and message. */
export interface GatewayErrorDetails {
  /** The field, header or option that is wrong, as a path: `events[0]`, `data.amount`. */
  param?: string;
  /** Response headers that belong to the error, such as `allow` or `retry-after`. */
  headers?: Readonly<Record<string, string>>;
  /** What a program needs to continue, such as the `idempotencyKey` to publish again with; never sent over HTTP. */
  details?: Readonly<Record<string, unknown>>;
  /** What went wrong beneath; never shown to a caller of the API. */
  cause?: unknown;
}

/** The body of every error answer, in the shape OpenAI's clients read. */
export interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: ErrorCode };
}

/** The APIs that models are called by. */
export const dialects = ['openai', 'anthropic'] as const;

/** One of the APIs that models are called by, in whose shapes its clients are answered. */
export type Dialect = (typeof dialects)[number];

/** The paths below `/v1` that are in Anthropic's API alone. */
export const anthropicPath = /^\/messages(?:\/|$)/;

/** Anthropic's `error.type` by status (its API reference, "Errors"). */
const anthropicTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

/** An answer with an error. */
interface AnsweredError {
  readonly status: number;
  readonly requestId: string;
}

/** What an error is to the clients of each API. */
const errorShapes: Readonly<Record<Dialect, (body: ErrorBody, answer: AnsweredError) => object>> = {
  openai: (body) => body,
  anthropic({ error: { message, param, code } }, { status, requestId }) {
    const type = anthropicTypes[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
    return { type: 'error', error: { type, message, param, code }, request_id: requestId };
  },
};

/** The body of an error answer in the shape that clients of a dialect read. */
export function errorIn(dialect: Dialect, body: ErrorBody, answer: AnsweredError): object {
  return errorShapes[dialect](body, answer);
}

const typeOfStatus: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  429: 'rate_limit_error',
};

/** OpenAI's `error.type` of an error: it follows from the status, except for a quota that is used up. */
export function errorType(status: number, code: unknown): string {
  if (code === 'insufficient_quota') return code;
  return typeOfStatus[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error');
}

/** Whether this is a code that errors are answered with. */
export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(errorStatus, code);
}

/** Whether this is an error, of another realm too: under Jest, those that Node itself throws are no instances of a test's `Error`. */
export function isError(thrown: unknown): thrown is Error {
  return thrown instanceof Error || isNativeError(thrown);
}

/** What was thrown, in words. A host's functions may throw anything, even a promise; reading it never throws. */
export function describeThrown(thrown: unknown): string {
  try {
    if (isPromise(thrown)) {
      thrown.catch(() => {});
      return 'a promise; was an await forgotten?';
    }
    return isError(thrown) ? `${thrown.name}: ${thrown.message}` : String(thrown);
  } catch {
    return 'something was thrown that cannot be turned into text';
  }
}

/** Calls a function of the host's that nothing waits for. @param report gets what it throws, now or later, in words */
export function callUnawaited(call: () => unknown, report: (thrown: string) => void): void {
  const fail = (thrown: unknown) => report(describeThrown(thrown));
  try {
    const running = call();
    if (running !== undefined) Promise.resolve(running).catch(fail);
  } catch (thrown) {
    fail(thrown);
  }
}

/** Messages may quote the request; longer ones are cut. Characters. */
const longestText = 1_000;

function shorten(text: string): string {
  return text.length > longestText ? `${text.slice(0, longestText).toWellFormed()}…` : text;
}

/** The one error class of the package. `code` is stable; `message` is for people and names the fix. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly code: ErrorCode;
  readonly status: number;
  readonly param: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, details: GatewayErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = errorStatus[code];
    this.param = details.param ?? null;
    this.headers = details.headers ?? {};
    this.details = details.details ?? {};
  }

  /** OpenAI's `error.type`. */
  get type(): string {
    return errorType(this.status, this.code);
  }

  /** The error as it is sent: nothing but what the caller may know. */
  toBody(): ErrorBody {
    const param = this.param === null ? null : shorten(this.param);
    return {
      error: { message: shorten(this.message), type: this.type, param, code: this.code },
    };
  }
}

/** @throws GatewayError that names the field, header or option in `param` and in the message */
export function refuse(code: ErrorCode, param: string, problem: string): never {
  throw new GatewayError(code, `${param}: ${problem}`, { param });
}

/** The same error for an unknown id, a malformed one and one of another account. @param list where those of the account are, below `/v1` */
export function notFound(code: ErrorCode, name: string, id: string, list: string): GatewayError {
  return new GatewayError(code, `No ${name} ${id} is in this account; GET /v1/${list} lists those that are`, {
    param: 'id',
  });
}

/** Whether this is an error of the gateway's, made by this copy of the package or by another. Never throws. */
export function isGatewayError(thrown: unknown): thrown is GatewayError {
  try {
    return thrown instanceof GatewayError || (isError(thrown) && thrown.name === 'GatewayError');
  } catch {
    return false;
  }
}

/** Those of some values that are long enough to be secrets, longest first. */
export function longSecrets(values: readonly string[]): string[] {
  return values.filter(({ length }) => length >= 8).sort((a, b) => b.length - a.length);
}

/** A text with `[redacted]` in place of secrets. */
export function redact(text: string, secrets: readonly string[]): string {
  return secrets.reduce((redacted, secret) => redacted.replaceAll(secret, '[redacted]'), text);
}
