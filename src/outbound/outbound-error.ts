/** Why an outgoing call failed. Stable: it is stored with delivery attempts and shown to operators. */
export type OutboundCode =
  | 'dns_failed'
  | 'address_not_allowed'
  | 'http_not_allowed'
  | 'connect_refused'
  | 'connect_failed'
  | 'connect_timeout'
  | 'proxy_unreachable'
  | 'proxy_refused'
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
  /** The final status of a response whose head is not valid otherwise, or that is none of those asked for. @default it had none, or the head is valid */
  readonly status?: number | undefined;
  readonly cause?: unknown;
}

/** The only error with which outgoing calls reject. Has neither the request nor its headers, so printing it cannot reveal a key. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly code: OutboundCode;
  readonly reusedSocket: boolean;
  readonly isUnsent: boolean;
  readonly status: number | undefined;

  constructor(
    code: OutboundCode,
    message: string,
    { reusedSocket = false, isUnsent = false, status, cause }: OutboundDetails = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.reusedSocket = reusedSocket;
    this.isUnsent = isUnsent;
    this.status = status;
  }
}

const byCode: Readonly<Record<string, OutboundCode>> = {
  address_not_allowed: 'address_not_allowed',
  ENOTFOUND: 'dns_failed',
  ENODATA: 'dns_failed',
  ESERVFAIL: 'dns_failed',
  EREFUSED: 'dns_failed',
  EFORMERR: 'dns_failed',
  ENOTIMP: 'dns_failed',
  EBADRESP: 'dns_failed',
  EBADNAME: 'dns_failed',
  ETIMEOUT: 'dns_failed',
  ECANCELLED: 'dns_failed',
  EAI_AGAIN: 'dns_failed',
  EAI_FAIL: 'dns_failed',
  EAI_NODATA: 'dns_failed',
  EAI_NONAME: 'dns_failed',
  ECONNREFUSED: 'connect_refused',
  EHOSTUNREACH: 'connect_failed',
  EHOSTDOWN: 'connect_failed',
  ENETUNREACH: 'connect_failed',
  ENETDOWN: 'connect_failed',
  EADDRNOTAVAIL: 'connect_failed',
  EACCES: 'connect_failed',
  EINVAL: 'connect_failed',
  EMFILE: 'connect_failed',
  UND_ERR_CONNECT_TIMEOUT: 'connect_timeout',
  ETIMEDOUT: 'connect_timeout',
  ECONNRESET: 'reset',
  ECONNABORTED: 'reset',
  EPIPE: 'reset',
  UND_ERR_SOCKET: 'reset',
  UND_ERR_HEADERS_TIMEOUT: 'timeout',
  UND_ERR_BODY_TIMEOUT: 'timeout',
  UND_ERR_ABORTED: 'aborted',
  ERR_CANCELED: 'aborted',
  ABORT_ERR: 'aborted',
  UND_ERR_HEADERS_OVERFLOW: 'invalid_response',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'invalid_response',
  UND_ERR_INVALID_ARG: 'invalid_request',
  UND_ERR_NOT_SUPPORTED: 'invalid_request',
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: 'invalid_request',
  ERR_INVALID_URL: 'invalid_request',
  UND_ERR_DESTROYED: 'closed',
  UND_ERR_CLOSED: 'closed',
  EPROTO: 'tls_failed',
};

/** OpenSSL's names for what is wrong with a certificate or a handshake. */
const tls = /^ERR_(TLS|SSL)_|CERT|^UNABLE_TO_|^HOSTNAME_MISMATCH$|^INVALID_(CA|PURPOSE)$|^PATH_LENGTH_EXCEEDED$/;

const messages: Readonly<Record<OutboundCode, string>> = {
  dns_failed: 'the host name could not be resolved',
  address_not_allowed: 'the host resolves to an address that may not be called',
  http_not_allowed: 'plain http may not be used',
  connect_refused: 'the connection was refused',
  connect_failed: 'no connection could be made',
  connect_timeout: 'no connection was made in time',
  proxy_unreachable: 'the proxy could not be reached, or does not answer as one',
  proxy_refused: 'the proxy refused the connection',
  tls_failed: 'the TLS handshake failed or the certificate is not valid',
  reset: 'the connection was closed before the response ended',
  timeout: 'the response did not come in time',
  aborted: 'the call was aborted',
  invalid_response: 'the response is not valid HTTP',
  invalid_request: 'the request cannot be sent as it is',
  closed: 'the gateway is shutting down',
  unknown: 'the call failed',
};

interface Reason {
  name?: unknown;
  code?: unknown;
  message?: unknown;
  errors?: unknown;
  reusedSocket?: unknown;
  isUnsent?: unknown;
  answeredStatus?: unknown;
  socket?: { bytesRead?: unknown } | null;
}

function asReason(error: unknown): Reason {
  return typeof error === 'object' && error !== null ? error : {};
}

function codeOf({ name, code, message, errors }: Reason): OutboundCode {
  if (name === 'TimeoutError') return 'timeout';
  if (name === 'AbortError') return 'aborted';
  if (name === 'HTTPParserError') return String(message).includes('Invalid EOF') ? 'reset' : 'invalid_response';
  // undici itself closes the socket on an unrequested 100 or 101
  if (code === 'UND_ERR_SOCKET' && (message === 'bad response' || message === 'bad upgrade')) return 'invalid_response';
  if (typeof code === 'string') {
    const outboundCode = byCode[code];
    if (outboundCode) return outboundCode;
    if (tls.test(code)) return 'tls_failed';
  }
  // several addresses were tried: the first failure counts
  return Array.isArray(errors) && errors.length > 0 ? codeOf(asReason(errors[0])) : 'unknown';
}

/** Whether a response does not have the length that its head announced. */
export function isLengthMismatch(error: unknown): boolean {
  return asReason(error).code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH';
}

/** The error of a code, with that code's message. */
export function outboundError(code: OutboundCode, cause?: unknown): OutboundError {
  return new OutboundError(code, messages[code], { cause });
}

/** Any failure of a call as an {@link OutboundError}, with a stable code, and the original as `cause`. */
export function classify(error: unknown): OutboundError {
  if (error instanceof OutboundError) return error;
  const reason = asReason(error);
  const code = codeOf(reason);
  const isUnsent = reason.isUnsent === true;
  const wasReused =
    typeof reason.reusedSocket === 'boolean' ? reason.reusedSocket : Number(reason.socket?.bytesRead ?? 0) > 0;
  const reusedSocket = code === 'reset' && wasReused;
  const { answeredStatus } = reason;
  const status = code === 'invalid_response' && typeof answeredStatus === 'number' ? answeredStatus : undefined;
  return new OutboundError(code, messages[code], { reusedSocket, isUnsent, status, cause: error });
}
