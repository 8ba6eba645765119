import type { ServerResponse } from 'node:http';
import type { ApiRequest } from '../../http/operation.ts';
import type { Logger } from '../../options/options.ts';
import type { DecodedResponse } from '../answer-body.ts';
import type { CallDeadline } from '../call-deadline.ts';
import { isMasked, requireRelayable, sendMasked } from '../failure.ts';
import { type RetryPolicy, tryUpstreams } from '../retry.ts';
import { sendResponse } from '../send-answer.ts';
import type { Upstream } from '../upstream.ts';
import { type RequestOptions, UpstreamRequests } from '../upstream-request.ts';
import { CallPlace } from '../upstream-state.ts';
import { UsageMeter } from '../usage-meter.ts';

export interface StoredCallDependencies extends RequestOptions {
  readonly retry: RetryPolicy;
  /** Whether answers name their upstream in `x-gateway-upstream`. */
  readonly exposeUpstream: boolean;
  readonly logger: Logger;
}

/** One request about what an upstream keeps. */
export interface StoredRequest {
  readonly apiRequest: ApiRequest;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below an upstream's base URL. */
  readonly path: string;
  /** The same, as a template. */
  readonly template: string;
  /** The upstreams that may answer it, in the order in which they are tried. */
  readonly order: readonly Upstream[];
  readonly deadline: CallDeadline;
  /** Called with an answer of 2xx before any of it is sent; what it returns is sent. */
  readonly onSuccess: (upstream: Upstream, response: DecodedResponse) => DecodedResponse | Promise<DecodedResponse>;
}

/** Makes one call about what an upstream keeps. It calls no model, so it is neither metered nor charged. */
export async function relayStoredCall(
  deps: StoredCallDependencies,
  request: StoredRequest,
  res: ServerResponse,
): Promise<void> {
  const { apiRequest, method, path, template, order, deadline, onSuccess } = request;
  const { userId } = apiRequest.principal;
  const place = new CallPlace(userId);
  const requests = new UpstreamRequests(apiRequest, deadline, deps);
  const send = (upstream: Upstream) => {
    const { rawBody } = apiRequest;
    return requests.send(upstream, { method, path, template, ...(rawBody.length > 0 && { data: rawBody }) });
  };
  try {
    const { upstream, response } = await tryUpstreams({ userId, order, deadline, place }, send, deps.retry);
    apiRequest.releaseBody();
    requireRelayable(response, apiRequest);
    await sendDown(
      deps,
      request,
      upstream,
      response.status < 300 ? await onSuccess(upstream, response) : response,
      res,
    );
  } finally {
    place.release();
    requests.end();
  }
}

async function sendDown(
  { exposeUpstream, logger }: StoredCallDependencies,
  { apiRequest, deadline }: StoredRequest,
  upstream: Upstream,
  response: DecodedResponse,
  res: ServerResponse,
): Promise<void> {
  const shownUpstream = exposeUpstream ? upstream.name : undefined;
  if (isMasked(upstream, response.status)) {
    await sendMasked({ upstream, response, shownUpstream, res, apiRequest, deadline }, logger);
    return;
  }
  await sendResponse({
    shownUpstream,
    response,
    res,
    deadline,
    betweenChunks: upstream.timeouts.betweenChunks,
    meter: new UsageMeter({ answersImages: false }, false, 1),
    asksForStream: apiRequest.query.stream === 'true',
    endsInDone: false,
    responseStream: 'resumed',
    dropsUsageChunk: false,
    repairsVectors: false,
  });
}
