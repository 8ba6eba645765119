import type { CallEnding } from '../../../options/options.ts';
import { isEncoded, isEventStream } from '../../headers.ts';
import { beginsAsEvents, PeekedBody } from './peeked-body.ts';
import type { ResponsePlan } from './response-plan.ts';
import { sendBody, sendLarge } from './send-body.ts';
import { sendEvents } from './send-events.ts';

/** Sends what should be a stream but is labelled as something else: a stream if it begins like one. */
async function sendUnlabelled(plan: ResponsePlan): Promise<CallEnding> {
  const { response, deadline, betweenChunks } = plan;
  const data = new PeekedBody(response.data);
  deadline.arm(betweenChunks);
  const isEvents = await data.peek(({ bytes }) => beginsAsEvents(bytes()), { onProgress: () => deadline.reset() });
  if (!isEvents) return sendBody({ ...plan, response: { ...response, data } });
  const headers = { ...response.headers, 'content-type': 'text/event-stream; charset=utf-8' };
  return sendEvents({ ...plan, response: { ...response, headers, data } });
}

/**
 * Sends a response to the client; resolves to how that ended. Rejects with a GatewayError or OutboundError as long as nothing
 * has been sent.
 */
export async function sendResponse(plan: ResponsePlan): Promise<CallEnding> {
  const { response, asksForStream } = plan;
  if (isEncoded(response.headers)) return sendLarge({ ...plan, repairsVectors: false }, Buffer.alloc(0));
  if (response.status >= 300) return sendBody(plan);
  if (isEventStream(response.headers)) return sendEvents(plan);
  return asksForStream ? sendUnlabelled(plan) : sendBody(plan);
}
