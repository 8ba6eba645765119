import { type ErrorCode, GatewayError } from '../errors.ts';
import type { OutboundCode, OutboundError } from '../outbound/outbound-error.ts';

const answers: Readonly<Record<OutboundCode, [ErrorCode, string]>> = {
  dns_failed: ['upstream_unreachable', 'The model provider cannot be reached.'],
  address_not_allowed: ['upstream_unreachable', 'The model provider cannot be reached.'],
  connect_refused: ['upstream_unreachable', 'The model provider cannot be reached.'],
  connect_failed: ['upstream_unreachable', 'The model provider cannot be reached.'],
  tls_failed: ['upstream_unreachable', 'The model provider cannot be reached.'],
  connect_timeout: ['upstream_timeout', 'The model provider did not answer in time.'],
  timeout: ['upstream_timeout', 'The model provider did not answer in time.'],
  reset: ['upstream_disconnected', 'The model provider closed the connection before it had answered.'],
  invalid_response: ['upstream_invalid_response', 'The model provider gave an answer that cannot be relayed.'],
  invalid_request: ['internal_error', 'The request could not be sent to the model provider.'],
  closed: ['shutting_down', 'The gateway is shutting down; send the request again.'],
  aborted: ['internal_error', 'The call was aborted.'],
  unknown: ['upstream_unreachable', 'The model provider cannot be reached.'],
};

/** What a caller is told when an upstream gave no answer. Says nothing about which upstream, or where. Pure. */
export function failureOf(error: OutboundError): GatewayError {
  const [code, message] = answers[error.code];
  return new GatewayError(code, message, { cause: error });
}

/** The last event of a stream that broke: official clients raise on it instead of taking half an answer for whole. */
export function errorEvent(error: GatewayError): string {
  return `data: ${JSON.stringify(error.toBody())}\n\n`;
}
