import type { GatewayError } from '../../../errors.ts';
import type { CallEnding } from '../../../options/options.ts';
import { errorEvent, failureFrom } from '../../failure.ts';
import { holdsUsage, isUsageChunk } from '../../metering/usage-chunk.ts';
import type { DecodedResponse } from '../decoded-body.ts';
import { errorInEvent, mayHoldError } from './error-inside.ts';
import { type EventFilter, EventFramer } from './event-framer.ts';
import { endOfAudio, LastEvent } from './last-event.ts';
import { ResponseEvents } from './response-events.ts';
import { type ResponsePlan, writeHead } from './response-plan.ts';
import { type ChunkObserver, type StreamHandlers, transfer } from './transfer.ts';

/** Notes in the meter that an event says that the answer has failed, and removes the usage chunk where that is wanted. */
function eventFilter({ meter, dropsUsageChunk }: ResponsePlan): EventFilter {
  return {
    mayConcern: (bytes) => mayHoldError(bytes) || (dropsUsageChunk && holdsUsage(bytes)),
    keeps(event) {
      meter.failure ??= errorInEvent(event);
      return !(dropsUsageChunk && isUsageChunk(event));
    },
  };
}

/** Whether a body says where it ends (RFC 9112, section 6.3). If not, it ends with its connection, and so may half of it. */
function isDelimited(headers: DecodedResponse['headers']): boolean {
  return headers['content-length'] !== undefined || /\bchunked\b/i.test(String(headers['transfer-encoding'] ?? ''));
}

/** How the events of a stream say that it has ended. */
interface StreamEnd {
  /** Whether the last event has come: then the answer is whole, whatever happens to the connection. */
  readonly isDone: boolean;
  /** Whether a body that has ended without it is whole. */
  readonly isWhole: boolean;
  /** What also sees the bytes, beside the meter. */
  readonly observer: ChunkObserver | undefined;
  /** The type of the last event of a response, however large it is. */
  readonly lastType: string | undefined;
  /** The last event of a stream that broke off. */
  errorEvent(error: GatewayError): string;
}

function streamEnd(plan: ResponsePlan, framer: EventFramer): StreamEnd {
  const { response, endsInDone, responseStream, answers, meter } = plan;
  if (responseStream === undefined) {
    // of the endpoints whose answers are not always JSON, which are those of audio
    const audio = answers && new LastEvent(endOfAudio);
    return {
      get isDone() {
        return audio ? audio.isDone : framer.done;
      },
      // a server behind the upstream that dies often leaves a stream that HTTP calls whole
      get isWhole() {
        return !endsInDone || (isDelimited(response.headers) && meter.hasFinished);
      },
      lastType: undefined,
      observer: audio,
      errorEvent,
    };
  }
  const events = new ResponseEvents();
  return {
    get isDone() {
      return events.isDone;
    },
    // of a stream that is resumed after its last event there is nothing left
    get isWhole() {
      return responseStream === 'resumed' && events.isEmpty && isDelimited(response.headers);
    },
    get lastType() {
      return events.lastType;
    },
    observer: events,
    // a response that is made in the background runs on, and its stream can be resumed
    errorEvent: (error) => (responseStream === 'whole' ? events.failedEvent(error) : events.errorEvent(error)),
  };
}

/**
 * Sends a stream of events as it comes. When it breaks off, it ends in an error event and without its last event, such as
 * `[DONE]`. What happens after the last event changes nothing: the client has everything.
 */
export async function sendEvents(plan: ResponsePlan): Promise<CallEnding> {
  const { response, res, deadline, meter } = plan;
  /** Whether its first event is an error: then there is no response. */
  const wasError = meter.hasFailed;
  const framer = new EventFramer(eventFilter(plan));
  const end = streamEnd(plan, framer);
  const { observer } = end;
  const readBoth = (chunk: Buffer): void => {
    meter.read(chunk);
    observer?.read(chunk);
  };
  const handlers: StreamHandlers = {
    transform: framer,
    observer: observer ? { read: readBoth } : meter,
    // an error is the end of a stream, whether or not more should follow
    isWhole: () => end.isDone || end.isWhole || meter.hasFailed,
    breakOff(_res, error) {
      if (end.isDone || meter.hasFailed) {
        res.end();
        return;
      }
      const event = end.errorEvent(failureFrom(error));
      res.end(framer.insideEvent ? `\n\n${event}` : event);
    },
  };
  writeHead(plan);
  let hadAll = true;
  const noteEnd = (): void => {
    hadAll = end.isDone;
  };
  if (deadline.clientDisconnected) noteEnd();
  res.once('close', noteEnd);
  const ended = transfer(response.data, plan, handlers);
  res.flushHeaders();
  const ending = await ended;
  res.off('close', noteEnd);
  meter.events = framer.events;
  // the last event may be too large to be read
  if (end.lastType === 'response.failed') meter.failure ??= { blamesRequest: false };
  // any other error ends the stream of a response that is made in the background, and not the response
  const runsOn =
    meter.hasFailed && plan.responseStream === 'background' && end.lastType !== 'response.failed' && !wasError;
  if (runsOn) meter.failure = undefined;
  // what a caller has sent comes back in the first events, whatever is called `usage` there included
  meter.trustsUsage = plan.responseStream === undefined || end.isDone;
  if (runsOn) return 'upstream_failed';
  return end.isDone && hadAll ? 'complete' : ending;
}
