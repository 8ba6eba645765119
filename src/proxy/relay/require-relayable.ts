import type { ApiRequest } from '../../http/operation.ts';
import { failure } from '../failure.ts';
import { acceptsEncoding, isEncoded } from '../headers.ts';
import type { DecodedResponse } from './decoded-body.ts';

/** Refuses answers that concern the gateway's own account at the upstream, or that the client cannot decode. */
export function requireRelayable(response: DecodedResponse, apiRequest: Pick<ApiRequest, 'headers'>): void {
  const { status, headers } = response;
  const unreadable = isEncoded(headers) && !acceptsEncoding(apiRequest.headers, String(headers['content-encoding']));
  if (status === 401 || status === 403) {
    response.data.destroy();
    throw failure('upstream_auth_failed');
  }
  if (unreadable || (status >= 300 && status < 400)) {
    response.data.destroy();
    throw failure('upstream_invalid_response');
  }
}
