import type { ApiRequest } from '../http/operation.ts';
import type { Principal } from '../options/principal.ts';
import { type CallDeadline, Deadline } from '../outbound/deadline.ts';
import type { ResponseBody } from '../outbound/exchange.ts';
import { decoded } from '../proxy/answer-body.ts';
import { failure, requireRelayable } from '../proxy/failure.ts';
import { isEncoded, upstreamRequestHeaders } from '../proxy/headers.ts';
import { type RetryPolicy, tryUpstreams } from '../proxy/retry.ts';
import { type Upstream, upstreamUrl } from '../proxy/upstream.ts';
import { CallPlace } from '../proxy/upstream-state.ts';

/** A read of what an upstream keeps, which the gateway makes for itself. */
interface UpstreamRead {
  readonly apiRequest: Pick<ApiRequest, 'requestId' | 'headers'> & { readonly principal: Pick<Principal, 'userId'> };
  /** Ends the call. The read has the time limits of the upstream besides. */
  readonly deadline: CallDeadline;
  /** The upstream that keeps it. */
  readonly upstream: Upstream;
  /** Below the upstream's base URL. */
  readonly path: string;
  /** The query, with its `?`. @default none */
  readonly search?: string;
}

/**
 * Reads what an upstream keeps; `null` where it keeps it no longer.
 * @param read reads its body, and is to call `onProgress` for every chunk
 * @throws GatewayError with the code of an upstream's failure; OutboundError
 */
export async function readStored<Read>(
  { apiRequest, deadline: callDeadline, upstream, path, search }: UpstreamRead,
  retry: RetryPolicy,
  read: (body: ResponseBody, onProgress: () => void) => Promise<Read>,
): Promise<Read | null> {
  const { userId } = apiRequest.principal;
  const place = new CallPlace(userId);
  const { 'anthropic-version': version, 'anthropic-beta': beta } = apiRequest.headers;
  const asked = { accept: 'application/json', 'anthropic-version': version, 'anthropic-beta': beta };
  const headers = upstreamRequestHeaders(asked, upstream.headers, apiRequest.requestId);
  const deadline = new ReadDeadline(callDeadline);
  const { firstByte, betweenChunks } = upstream.timeouts;
  const send = () => {
    deadline.arm(firstByte);
    return upstream.http.relay({ url: upstreamUrl(upstream, path, search), headers, signal: deadline, resends: true });
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
    return await read(response.data, () => deadline.reset());
  } finally {
    deadline.release();
    place.release();
  }
}

/** Ends one of several reads of a call: at its own time limit, or with the call. */
class ReadDeadline extends Deadline {
  readonly #call: CallDeadline;

  constructor(call: CallDeadline) {
    super(Number.POSITIVE_INFINITY);
    this.#call = call;
    if (call.aborted) this.abort(call.reason);
    else call.addEventListener('abort', this.#onCallAborted);
  }

  override get isOver(): boolean {
    return this.aborted || this.#call.isOver;
  }

  override release(): void {
    super.release();
    this.#call.removeEventListener('abort', this.#onCallAborted);
  }

  #onCallAborted = (): void => this.abort(this.#call.reason);
}
