import type { Logger } from '../options/options.ts';
import { isMasked, loggableError, maskedError } from '../proxy/failure.ts';
import { type ErrorInside, errorInMessage } from '../proxy/inspect-answer.ts';
import type { Upstream } from '../proxy/upstream.ts';
import { errorEvent, type Message } from './bridge.ts';
import type { UpstreamEvent } from './events.ts';

/** Whose event it is, and who tells the operator of it. */
interface EventSource {
  readonly upstream: Upstream;
  readonly requestId: string;
  readonly logger: Pick<Logger, 'warn'>;
}

/** The error that an event of an upstream's is; `undefined` where it is none. Pure. */
export function errorOfEvent(event: UpstreamEvent): ErrorInside | undefined {
  return errorInMessage({ ...event });
}

/** A message as the client may see it: where errors of its upstream are masked, with a plain error in the place of one. */
export function maskedMessage(message: Message, event: UpstreamEvent, source: EventSource): Message {
  const { upstream, requestId, logger } = source;
  const status = errorOfEvent(event)?.status;
  if (status === undefined || !isMasked(upstream, status)) return message;
  const body = loggableError(message.data.toString(), true, upstream.headers.fixed);
  const error = maskedError({ upstream, status, requestId, body }, logger);
  if (event.type === 'error') {
    const causedBy = event.error?.event_id;
    return textMessage(errorEvent(error, typeof causedBy === 'string' ? causedBy : undefined));
  }
  return textMessage(JSON.stringify(withError(event, error.toBody().error)));
}

/** A realtime session has the error of a response in its details, and the Responses API beside its status. Other events have it themselves. */
function withError(event: UpstreamEvent, error: object): object {
  const { type, response } = event;
  if (!response) return { ...event, error };
  const said = type === 'response.done' ? { status_details: { type: 'failed', error } } : { error };
  return { ...event, response: { ...response, ...said } };
}

const textMessage = (text: string): Message => ({ data: Buffer.from(text), isBinary: false });
