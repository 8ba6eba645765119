/** Why an outgoing call failed. Stable: it is stored with delivery attempts and shown to operators. */
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

/** The only error with which outgoing calls reject. Has neither the request nor its headers, so printing it cannot reveal a key. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  /** Whether the receiver certainly has not read the whole request. If `false`, nothing is known. */
  readonly isUnsent: boolean;

  constructor(
    readonly code: OutboundCode,
    message: string,
    /** Whether the socket had served an earlier response: then a reset says little about the receiver. */
    readonly reusedSocket = false,
    options: ErrorOptions & { readonly isUnsent?: boolean } = {},
  ) {
    super(message, options);
    this.isUnsent = options.isUnsent ?? false;
  }
}
