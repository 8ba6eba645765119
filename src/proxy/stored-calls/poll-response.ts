import { newId } from '../../ids.ts';
import type { UsageRecord } from '../../options/options.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import { CallDeadline } from '../call-deadline.ts';
import { failure, failureFrom } from '../failure.ts';
import type { BackgroundResponse } from '../ownership/background-responses.ts';
import type { RetryPolicy } from '../retry.ts';
import type { Upstream } from '../upstream.ts';
import { readEndedResponse } from './ended-response.ts';
import { readStored } from './fetch-stored.ts';

/** The longest that one poll takes. Milliseconds. */
const pollTimeout = 30_000;

/** No client waits for the answer. */
const noClient = { disconnected: false, onDisconnect() {} };

/** What an upstream says of a response: how it has ended, that it runs, or that it does not keep it. */
export type ResponseState = UsageRecord | 'running' | 'gone';

/**
 * Asks an upstream for the state of a response that is made in the background.
 * @throws GatewayError with the code of an upstream's failure
 */
export type PollResponse = (response: BackgroundResponse) => Promise<ResponseState>;

export function createPollResponse(deps: {
  readonly upstreams: readonly Upstream[];
  readonly retry: RetryPolicy;
}): PollResponse {
  return async function pollResponse({ id, userId, upstream: name, background }) {
    const upstream = deps.upstreams.find((candidate) => candidate.name === name);
    // it may be configured in another process, or again later
    if (!upstream) throw failure('upstream_unreachable');
    const deadline = new CallDeadline(noClient, Math.min(pollTimeout, upstream.timeouts.total));
    const apiRequest = { principal: { userId }, requestId: newId('req', Date.now()), headers: {} };
    try {
      const path = `/responses/${encodeURIComponent(id)}`;
      const response = await readStored(deps, { apiRequest, deadline, upstream, path }, readEndedResponse);
      return response === null ? 'gone' : (response.record(background) ?? 'running');
    } catch (error) {
      throw error instanceof OutboundError ? failureFrom(error) : error;
    } finally {
      deadline.release();
    }
  };
}
