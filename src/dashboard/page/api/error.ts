/** An error that the API answered with, or that it could not be reached. */
export class ApiError extends Error {
  /** HTTP; 0 when no answer came. */
  readonly status: number;
  readonly code: string;
  /** The field it is about: `url`, `events[0]`. */
  readonly param: string | null;
  /** For questions to the operator. */
  readonly requestId: string | null;

  constructor(
    message: string,
    { status, code, param = null, requestId = null }: Pick<ApiError, 'status' | 'code'> & Partial<ApiError>,
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
    this.requestId = requestId;
  }
}

/** @param body what came, parsed as far as it could be; a proxy may have answered in place of the API */
export function toApiError({ status, headers }: Response, body: unknown): ApiError {
  const requestId = headers.get('x-request-id');
  const { error } = (body ?? {}) as { error?: { message?: string; code?: string; param?: string | null } };
  if (!error?.message) {
    return new ApiError(`The gateway answered with status ${status}`, { status, code: 'unexpected_answer', requestId });
  }
  return new ApiError(error.message, { status, code: error.code ?? '', param: error.param ?? null, requestId });
}
