import { isExactNumber, isNumber } from '../../../http/json/exact-number.ts';

/** An error that the API answered with, or that it could not be reached. */
export class ApiError extends Error {
  /** HTTP; 0 when no answer came. */
  readonly status: number;
  readonly code: string;
  /** The field it is about: `url`, `events[0]`. */
  readonly param: string | null;
  /** For questions to the operator. */
  readonly requestId: string | null;
  /** Whether the API has answered with it, so that its code is one of the API's. */
  readonly isOfApi: boolean;

  constructor(
    message: string,
    {
      status,
      code,
      param = null,
      requestId = null,
      isOfApi = false,
    }: Pick<ApiError, 'status' | 'code'> & Partial<ApiError>,
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
    this.requestId = requestId;
    this.isOfApi = isOfApi;
  }
}

/** @param body what came, parsed as far as it could be; a proxy may have answered in place of the API */
export function toApiError({ status, headers }: Response, body: unknown): ApiError {
  const requestId = headers.get('x-request-id');
  const { error } = (body ?? {}) as { error?: { message?: string; code?: string; param?: string | null } };
  if (!error?.message) {
    return new ApiError(`The gateway answered with status ${status}`, { status, code: 'unexpected_answer', requestId });
  }
  const { message, code = '', param = null } = error;
  return new ApiError(message, { status, code, param, requestId, isOfApi: true });
}

/** What was thrown, as an ApiError: a failure of the page itself, too. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  return new ApiError(String(thrown), { status: 0, code: 'page_failed' });
}

/** What an error says about one field of a form, without the field's name before it. */
export function errorOf(error: ApiError | undefined, field: string): string | undefined {
  if (!error?.param || error.param.split(/[.[]/, 1)[0] !== field) return undefined;
  const text = error.message.replace(new RegExp(`^${field}[^:\\s]*: `), '');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * Reads a number, written as in JSON.
 * @param param the field that it is for
 * @throws ApiError for what is no number, and for a number that JSON would change: the gateway would get it changed, and could not refuse it
 */
export function exactNumber(text: string, param: string): number {
  if (isExactNumber(text)) return Number(text);
  if (!isNumber(text)) throw new ApiError(`${param}: must be a number`, { status: 0, code: 'invalid_type', param });
  const message = `${param}: ${text} has more digits than JSON numbers keep, so it would change`;
  throw new ApiError(message, { status: 0, code: 'number_not_exact', param });
}
