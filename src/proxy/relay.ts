import type { ServerResponse } from 'node:http';
import type { Axios } from 'axios';
import { GatewayError } from '../errors.ts';
import type { Call } from '../http/operation.ts';
import type { HttpResponse } from '../outbound/client.ts';
import type { OutboundError } from '../outbound/outbound-error.ts';
import { failureOf } from './failure.ts';
import { forward } from './forward.ts';
import { headersUp } from './headers.ts';
import type { Upstream } from './upstream.ts';

/** What is asked of an upstream. */
export interface UpstreamRequest {
  readonly method: 'GET' | 'POST';
  /** Below the upstream's base URL: `/chat/completions`. */
  readonly path: string;
}

/** Refuses the answers that are about the gateway's own standing with the upstream, not about the caller's request. */
function refuseOurs(response: HttpResponse): void {
  if (response.status === 401 || response.status === 403) {
    response.data.destroy();
    throw new GatewayError('upstream_auth_failed', 'The model provider refused the gateway; the operator has to look.');
  }
  if (response.status >= 300 && response.status < 400) {
    response.data.destroy();
    throw new GatewayError('upstream_invalid_response', 'The model provider gave an answer that cannot be relayed.');
  }
}

async function ask(http: Axios, upstream: Upstream, { method, path }: UpstreamRequest, call: Call) {
  const response: HttpResponse = await http.request({
    method,
    url: upstream.baseUrl + path,
    headers: headersUp(call.headers, upstream.headers, call.requestId),
    data: method === 'POST' ? call.rawBody : undefined,
    signal: call.signal,
  });
  return response;
}

/** One call, from the client's bytes to the upstream's. Throws a GatewayError as long as nothing was sent down. */
export async function relay(
  http: Axios,
  upstream: Upstream,
  request: UpstreamRequest,
  call: Call,
  res: ServerResponse,
): Promise<void> {
  let response: HttpResponse;
  try {
    response = await ask(http, upstream, request, call);
  } catch (error) {
    // the client has left: there is nobody to answer
    if (call.signal.aborted) return;
    throw failureOf(error as OutboundError);
  }
  refuseOurs(response);
  await forward(response, res);
}
