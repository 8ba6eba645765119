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

export interface OutboundDetails {
  /** Whether the socket had served an earlier response: then a reset says little about the receiver. @default false */
  readonly reusedSocket?: boolean;
  /** Whether the receiver certainly has not read the whole request. If `false`, nothing is known. @default false */
  readonly isUnsent?: boolean;
  readonly cause?: unknown;
}

/** The only error with which outgoing calls reject. Has neither the request nor its headers, so printing it cannot reveal a key. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly code: OutboundCode;
  readonly reusedSocket: boolean;
  readonly isUnsent: boolean;

  constructor(
    code: OutboundCode,
    message: string,
    { reusedSocket = false, isUnsent = false, cause }: OutboundDetails = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.reusedSocket = reusedSocket;
    this.isUnsent = isUnsent;
  }
}
