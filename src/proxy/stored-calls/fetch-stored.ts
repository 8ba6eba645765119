import type { ApiRequest } from '../../http/operation.ts';
import type { Principal } from '../../http/principal.ts';
import { collect, decoded, isJson, type RelayedBody } from '../answer-body.ts';
import type { CallDeadline } from '../call-deadline.ts';
import { failure, requireRelayable } from '../failure.ts';
import { isEncoded, upstreamRequestHeaders } from '../headers.ts';
import { type RetryPolicy, tryUpstreams } from '../retry.ts';
import { type Upstream, upstreamUrl } from '../upstream.ts';
import { CallPlace } from '../upstream-state.ts';
import { ReadDeadline } from './read-deadline.ts';

export interface StoredFetch {
  readonly apiRequest: Pick<ApiRequest, 'requestId' | 'headers'> & { readonly principal: Pick<Principal, 'userId'> };
  /** Ends the call. The fetch has the time limits of the upstream besides. */
  readonly deadline: CallDeadline;
  /** The upstream that keeps it. */
  readonly upstream: Upstream;
  /** Below the upstream's base URL. */
  readonly path: string;
}

/** Reads a body. @param onProgress to be called for every chunk */
type BodyReader<Read> = (body: RelayedBody, onProgress: () => void) => Promise<Read>;

interface Deps {
  readonly retry: RetryPolicy;
}

/**
 * Reads what an upstream keeps; `null` where it keeps it no longer.
 * @throws GatewayError with the code of an upstream's failure; OutboundError
 */
export async function readStored<Read>(
  { retry }: Deps,
  { apiRequest, deadline: callDeadline, upstream, path }: StoredFetch,
  read: BodyReader<Read>,
): Promise<Read | null> {
  const { userId } = apiRequest.principal;
  const place = new CallPlace(userId);
  const headers = upstreamRequestHeaders({ accept: 'application/json' }, upstream.headers, apiRequest.requestId);
  const deadline = new ReadDeadline(callDeadline);
  const { firstByte, betweenChunks } = upstream.timeouts;
  const send = () => {
    deadline.arm(firstByte);
    return upstream.http.relay({ url: upstreamUrl(upstream, path), headers, signal: deadline });
  };
  try {
    const { response: received } = await tryUpstreams({ userId, order: [upstream], deadline, place }, send, retry);
    const response = decoded(received);
    requireRelayable(response, apiRequest);
    const { status } = response;
    if (status !== 200 || isEncoded(response.headers)) {
      response.data.destroy();
      if (status === 404) return null;
      throw failure(status === 200 ? 'upstream_invalid_response' : 'upstream_error');
    }
    deadline.arm(betweenChunks);
    return await read(response.data, () => deadline.arm(betweenChunks));
  } finally {
    deadline.release();
    place.release();
  }
}

/**
 * Fetches what an upstream keeps, as the bytes it sends; `null` where it keeps it no longer, `'too large'` where it exceeds
 * the limit, in bytes.
 * @throws GatewayError with the code of an upstream's failure; OutboundError
 */
export function fetchStored(deps: Deps, fetch: StoredFetch, limit: number): Promise<Buffer | null | 'too large'> {
  return readStored(deps, fetch, async (body, onProgress) => {
    const { bytes, whole } = await collect(body, limit, onProgress);
    if (whole && isJson(bytes)) return bytes;
    body.destroy();
    if (!whole) return 'too large';
    throw failure('upstream_invalid_response');
  });
}
