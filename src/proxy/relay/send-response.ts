import type { ServerResponse } from 'node:http';
import type { GatewayError } from '../../errors.ts';
import type { CallEnding } from '../../options/options.ts';
import type { CallDeadline } from '../call-deadline.ts';
import type { Endpoint } from '../endpoint.ts';
import { errorEvent, failure, failureFrom } from '../failure.ts';
import { isEncoded, isEventStream, setResponseHeaders } from '../headers.ts';
import { holdsUsage, isUsageChunk } from '../metering/usage-chunk.ts';
import type { UsageMeter } from '../metering/usage-meter.ts';
import { collect } from './collect.ts';
import type { DecodedResponse } from './decoded-body.ts';
import { EmbeddingRepair } from './embedding-repair.ts';
import { type EventFilter, EventFramer, keepAll } from './event-framer.ts';
import { PeekedBody } from './peeked-body.ts';
import { ResponseEvents } from './response-events.ts';
import { type ChunkObserver, type StreamHandlers, transfer } from './transfer.ts';

/** The largest answer that is held until it is whole. Bytes. */
const holdLimit = 256 * 1024;

/** The largest answer that is sent in one piece with its head. Bytes. */
const joinedLimit = 16 * 1024;

/** One response, and how it is sent to the client. */
export interface ResponsePlan {
  readonly response: DecodedResponse;
  /** The name of the upstream, if the answer shows it. */
  readonly shownUpstream: string | undefined;
  readonly res: ServerResponse;
  readonly deadline: CallDeadline;
  readonly betweenChunks: number;
  readonly meter: UsageMeter;
  /** What a successful answer is, if not always JSON. */
  readonly answers?: Endpoint['answers'] | undefined;
  /** Whether the client asked for a stream. */
  readonly asksForStream: boolean;
  /** Whether a whole stream ends in `[DONE]`. */
  readonly endsInDone: boolean;
  /** Whether its streams are those of the Responses API, and whether one begins at its first event. @default they are not */
  readonly responseStream?: 'whole' | 'resumed' | undefined;
  /** Whether the usage chunk at a stream's end is removed, because the client did not ask for it. */
  readonly dropsUsageChunk: boolean;
  /** Whether vectors of numbers become base64. */
  readonly repairsVectors: boolean;
}

const withoutUsageChunk: EventFilter = { mayDrop: holdsUsage, keeps: (event) => !isUsageChunk(event) };

/** Drops the connection, so that the client sees a failed transfer and does not take half a JSON body for a whole one. */
const cut = (res: ServerResponse): void => void res.destroy();

function writeHead({ response, res, shownUpstream }: ResponsePlan, length?: number | string): void {
  setResponseHeaders(res, response.headers);
  if (shownUpstream !== undefined) res.setHeader('x-gateway-upstream', shownUpstream);
  if (length !== undefined) res.setHeader('content-length', length);
  res.writeHead(response.status);
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
  /** What is told of the bytes, beside the meter. */
  readonly observer: ChunkObserver | undefined;
  /** The last event of a stream that broke off. */
  errorEvent(error: GatewayError): string;
}

function streamEnd({ response, endsInDone, responseStream }: ResponsePlan, framer: EventFramer): StreamEnd {
  if (responseStream === undefined) {
    return {
      get isDone() {
        return framer.done;
      },
      isWhole: !endsInDone || isDelimited(response.headers),
      observer: undefined,
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
    observer: events,
    errorEvent: (error) => events.errorEvent(error),
  };
}

/**
 * Sends a stream of events as it comes. When it breaks off, it ends in an error event and without its last event, such as
 * `[DONE]`. What happens after the last event changes nothing: the client has everything.
 */
async function sendEvents(plan: ResponsePlan): Promise<CallEnding> {
  const { response, res, deadline, meter, dropsUsageChunk } = plan;
  const framer = new EventFramer(dropsUsageChunk ? withoutUsageChunk : keepAll);
  const end = streamEnd(plan, framer);
  const { observer } = end;
  const readBoth = (chunk: Buffer): void => {
    meter.read(chunk);
    observer?.read(chunk);
  };
  const handlers: StreamHandlers = {
    transform: framer,
    observer: observer ? { read: readBoth } : meter,
    isWhole: () => end.isDone || end.isWhole,
    breakOff(_res, error) {
      if (end.isDone) {
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
  // what a caller has sent comes back in the first events, whatever is called `usage` there included
  meter.trustsUsage = plan.responseStream === undefined || end.isDone;
  return end.isDone && hadAll ? 'complete' : ending;
}

/** Whether bytes begin like a JSON object or list: all that can be checked of a body that is too large to be held. */
function beginsAsJson(bytes: Buffer): boolean {
  return /^\s*[[{]/.test(bytes.toString('latin1', 0, 64));
}

/** Whether an answer may say what was used. Bytes do not, and in a text that is no JSON a speaker might. */
function mayReport({ answers }: ResponsePlan, first: Buffer): boolean {
  return answers !== 'bytes' && (answers !== 'text' || beginsAsJson(first));
}

/** Sends a body as it comes: one that is too large to be held, or that cannot be read. */
function sendLarge(plan: ResponsePlan, first: Buffer): Promise<CallEnding> {
  const { response, res, deadline, meter, repairsVectors } = plan;
  const transform = repairsVectors ? new EmbeddingRepair() : undefined;
  const length = response.headers['content-length'];
  const parts = transform ? transform.push(first) : [first];
  const observer = mayReport(plan, first) ? meter : { read: (chunk: Buffer) => meter.skip(chunk) };
  observer.read(first);
  const handlers: StreamHandlers = { ...(transform && { transform }), observer, breakOff: cut };
  writeHead(plan, transform || typeof length !== 'string' ? undefined : length);
  if (!deadline.clientDisconnected) for (const part of parts) res.write(part);
  return transfer(response.data, plan, handlers);
}

/** @param text the bytes, each as one character */
function sendWhole(plan: ResponsePlan, bytes: Buffer, text: string): CallEnding {
  const { res, deadline, meter, repairsVectors } = plan;
  if (mayReport(plan, bytes)) meter.read(bytes);
  else meter.skip(bytes);
  if (deadline.clientDisconnected) return 'client_left';
  if (repairsVectors) {
    const repair = new EmbeddingRepair();
    const repaired = Buffer.concat([...repair.push(bytes), ...repair.end()]);
    writeHead(plan, repaired.length);
    res.end(repaired);
    return 'complete';
  }
  writeHead(plan, bytes.length);
  // a string is sent in one piece with the head
  if (bytes.length <= joinedLimit) res.end(text, 'latin1');
  else res.end(bytes);
  return 'complete';
}

/** @param text the bytes, each as one character: bytes beyond ASCII occur only inside strings */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Sends a body that is held, or starts to send one that is too large to be held. */
async function sendHeld(plan: ResponsePlan, bytes: Buffer, whole: boolean): Promise<CallEnding> {
  const { response } = plan;
  if (response.status === 204) {
    writeHead(plan);
    plan.res.end();
    return 'complete';
  }
  const mayBeAny = plan.answers !== undefined && response.status < 300;
  if (whole) {
    const text = bytes.toString('latin1');
    if (mayBeAny || isJson(text)) return sendWhole(plan, bytes, text);
  } else if (mayBeAny || beginsAsJson(bytes)) {
    return sendLarge(plan, bytes);
  }
  response.data.destroy();
  // the client's own retries would not help when the request was refused
  const details = response.status >= 500 || response.status < 400 ? {} : { headers: { 'x-should-retry': 'false' } };
  throw failure('upstream_invalid_response', details);
}

/** Sends a body that is no stream of events. */
async function sendBody(plan: ResponsePlan): Promise<CallEnding> {
  const { response, deadline, betweenChunks, answers } = plan;
  if (answers === 'bytes' && response.status < 300) return sendLarge(plan, Buffer.alloc(0));
  const bytes = response.data.takeWhole();
  if (bytes) return sendHeld(plan, bytes, true);
  deadline.arm(betweenChunks);
  const held = await collect(response.data, holdLimit, () => deadline.reset());
  return sendHeld(plan, held.bytes, held.whole);
}

/** Sends what should be a stream but is labelled as something else: a stream if it begins like one. */
async function sendUnlabelled(plan: ResponsePlan): Promise<CallEnding> {
  const { response, deadline, betweenChunks } = plan;
  const data = new PeekedBody(response.data);
  deadline.arm(betweenChunks);
  const isEvents = await data.isEvents(() => deadline.reset());
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
