import { type ErrorCode, GatewayError, type GatewayErrorDetails, isGatewayError } from '../errors.ts';
import type { OutboundCode, OutboundError } from '../outbound/outbound-error.ts';

const messages = {
  upstream_unreachable: 'The model provider cannot be reached; send the request again later',
  upstream_timeout: 'The model provider did not answer in time; send the request again',
  upstream_disconnected:
    'The model provider closed the connection before its answer was complete; send the request again',
  upstream_invalid_response:
    'The model provider sent a response that cannot be relayed; tell the operator of this gateway',
  upstream_auth_failed: "The model provider refused the gateway's credentials; tell the operator of this gateway",
  upstream_rate_limited: 'The model provider accepts no more requests at present; send the request again later',
  upstream_error: 'The model provider failed; send the request again',
  shutting_down: 'The gateway is shutting down; send the request again',
  internal_error: 'The request could not be sent to the model provider; tell the operator of this gateway',
} as const satisfies Partial<Record<ErrorCode, string>>;

type UpstreamErrorCode = keyof typeof messages;

const codes: Readonly<Record<OutboundCode, UpstreamErrorCode>> = {
  dns_failed: 'upstream_unreachable',
  address_not_allowed: 'upstream_unreachable',
  http_not_allowed: 'upstream_unreachable',
  connect_refused: 'upstream_unreachable',
  connect_failed: 'upstream_unreachable',
  tls_failed: 'upstream_unreachable',
  unknown: 'upstream_unreachable',
  connect_timeout: 'upstream_timeout',
  timeout: 'upstream_timeout',
  reset: 'upstream_disconnected',
  aborted: 'upstream_disconnected',
  invalid_response: 'upstream_invalid_response',
  invalid_request: 'internal_error',
  closed: 'shutting_down',
};

/** The error that a client gets for a failure. It does not name the upstream or its address. Pure. */
export function failure(code: UpstreamErrorCode, details?: GatewayErrorDetails): GatewayError {
  const headers = code === 'shutting_down' ? { 'retry-after': '1' } : {};
  return new GatewayError(code, messages[code], { headers, ...details });
}

/** The same for a call to an upstream that failed; the gateway's own error where that is the cause. Pure. */
export function failureFrom(error: OutboundError): GatewayError {
  if (isGatewayError(error.cause)) return error.cause;
  return failure(codes[error.code], { cause: error });
}

/** The last event of a stream that broke off: official clients throw on it, and do not take half an answer for a whole one. */
export function errorEvent(error: GatewayError): string {
  return `data: ${JSON.stringify(error.toBody())}\n\n`;
}
