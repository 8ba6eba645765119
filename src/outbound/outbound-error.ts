/** Why a call to the outside failed. Stable: stored with delivery attempts, shown to operators. */
export type OutboundCode =
  | 'dns_failed'
  | 'address_not_allowed'
  | 'http_not_allowed'
  | 'connect_refused'
  | 'connect_failed'
  | 'connect_timeout'
  | 'tls_failed'
  | 'reset'
  | 'timeout'
  | 'aborted'
  | 'invalid_response'
  | 'invalid_request'
  | 'closed'
  | 'unknown';

/**
 * The one error that calls to the outside reject with. Holds neither the request nor its headers,
 * so that printing it cannot print a key.
 */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  /** Whether the receiver surely has not read the whole request. Where this is false, nobody can tell. */
  readonly isUnsent: boolean;

  constructor(
    readonly code: OutboundCode,
    message: string,
    /** Whether the socket had served an earlier response: a reset then says little about the receiver. */
    readonly reusedSocket = false,
    options: ErrorOptions & { readonly isUnsent?: boolean } = {},
  ) {
    super(message, options);
    this.isUnsent = options.isUnsent ?? false;
  }
}
