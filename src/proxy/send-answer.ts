import type { ServerResponse } from 'node:http';
import type { CallEnding } from '../options/options.ts';
import type { CallDeadline } from '../outbound/deadline.ts';
import type { OutboundResponse, ResponseBody } from '../outbound/exchange.ts';
import { classify, type OutboundError, outboundError } from '../outbound/outbound-error.ts';
import { beginsAsEvents, collect, isJson, type LeastResult, peek, ResultSearch } from './answer-body.ts';
import { EmbeddingRepair, repaired } from './embedding-repair.ts';
import type { Endpoint } from './endpoint.ts';
import { EventFramer, isUsageChunk, usageObject } from './event-framer.ts';
import { failure, failureFrom, invalidResponse } from './failure.ts';
import { isEncoded, isEventStream, setResponseHeaders } from './headers.ts';
import { Heartbeat } from './heartbeat.ts';
import { errorWord, holdLimit, holdsJson, isDoneEvent, judgeBody, readEvent } from './inspect-answer.ts';
import { endOfAudio, errorEvent, LastEvent, ResponseEnd, type ResponseStream, type StreamEnd } from './stream-end.ts';
import type { UsageMeter } from './usage-meter.ts';

/** One response, and how it is sent to the client. */
export interface ResponsePlan {
  readonly response: OutboundResponse;
  /** The name of the upstream, if the answer shows it. */
  readonly shownUpstream: string | undefined;
  readonly res: ServerResponse;
  readonly deadline: CallDeadline;
  readonly betweenChunks: number;
  readonly meter: UsageMeter;
  /** What a successful answer is, if not always JSON; a file passes as it is, whatever its type. */
  readonly answers?: Endpoint['answers'] | 'file' | undefined;
  /** Whether the client asked for a stream. */
  readonly asksForStream: boolean;
  /** Whether a whole stream ends in `[DONE]`. */
  readonly endsInDone: boolean;
  /** Whether its streams are those of the Responses API. @default they are not */
  readonly responseStream?: ResponseStream | undefined;
  /** How its streams end. @default as the fields beside this say */
  readonly streamEnd?: StreamEnd | undefined;
  /** After how long without anything to send a stream of events gets a comment. Milliseconds. @default it gets none */
  readonly heartbeat?: number | undefined;
  /** Whether the usage chunk at a stream's end is removed, because the client did not ask for it. */
  readonly dropsUsageChunk: boolean;
  /** What it has at least, where it is JSON or events. @default anything */
  readonly result?: LeastResult | undefined;
  /** Whether it may still turn out to be an error, or to say nothing: its beginning did not say in time. @default its beginning was not read */
  readonly isUndecided?: boolean | undefined;
  /** Whether vectors of numbers become base64. */
  readonly repairsVectors: boolean;
}

/**
 * Sends a response to the client; gives how that ended, at once where the whole of it is held. Throws a GatewayError or OutboundError,
 * or rejects with one, as long as nothing has been sent.
 */
export function sendResponse(plan: ResponsePlan): CallEnding | Promise<CallEnding> {
  const { response, asksForStream } = plan;
  if (isEncoded(response.headers)) return sendLarge({ ...plan, repairsVectors: false }, Buffer.alloc(0));
  if (response.status >= 300) return sendBody(plan);
  if (plan.answers === 'file') return sendLarge(plan, Buffer.alloc(0));
  if (isEventStream(response.headers)) return sendEvents(plan);
  return asksForStream ? sendUnlabelled(plan) : sendBody(plan);
}

/** Sends what should be a stream but is labelled as something else: a stream if it begins like one. */
async function sendUnlabelled(plan: ResponsePlan): Promise<CallEnding> {
  const { response, deadline, betweenChunks } = plan;
  const decide = (start: ResponseBody) => beginsAsEvents(start.bytes());
  if (!(await peek(response.data, decide, { deadline, betweenChunks }))) return sendBody(plan);
  const headers = { ...response.headers, 'content-type': 'text/event-stream; charset=utf-8' };
  return sendEvents({ ...plan, response: { ...response, headers } });
}

/** Drops the connection, so that the client sees a failed transfer and does not take half a JSON body for a whole one. */
const cut = (res: ServerResponse): void => void res.destroy();

/** Whether bytes begin like a JSON object or list: all that can be checked of a body that is too large to be held. */
function beginsAsJson(bytes: Buffer): boolean {
  return /^\s*[[{]/.test(bytes.toString('latin1', 0, 64));
}

/** Whether an answer may say what was used. Bytes do not, and in a text that is no JSON a speaker might. */
function mayReport({ answers }: ResponsePlan, first: Buffer): boolean {
  return answers !== 'bytes' && answers !== 'file' && (answers !== 'text' || beginsAsJson(first));
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
  if (!deadline.client.disconnected) for (const part of parts) res.write(part);
  return transfer(plan, handlers);
}

/** Whether an answer says in plain text what is wrong with the request, as DeepSeek and servers in Rust do. A page is not for clients. */
function isRefusalInText({ status, headers }: OutboundResponse, bytes: Buffer): boolean {
  return status >= 400 && status < 500 && bytes.length > 0 && /^text\/plain\b/i.test(String(headers['content-type']));
}

function sendWhole(plan: ResponsePlan, bytes: Buffer): CallEnding {
  const { res, deadline, meter, repairsVectors } = plan;
  if (mayReport(plan, bytes)) meter.read(bytes);
  else meter.skip(bytes);
  if (deadline.client.disconnected) return 'client_left';
  const sent = repairsVectors ? repaired(bytes) : bytes;
  writeHead(plan, sent.length);
  res.end(sent);
  return 'complete';
}

/** An upstream that says nothing has failed, whatever it was asked. */
const nothingSaid = { blamesRequest: false };

/** Whether a whole body may be sent. What its beginning has shown is not looked at again. */
function mayBeSent({ response, answers, result, isUndecided, meter }: ResponsePlan, bytes: Buffer): boolean {
  if (response.status >= 300) return isJson(bytes) || isRefusalInText(response, bytes);
  if (isUndecided === false) return true;
  if (!result || answers === 'file') return answers !== undefined || isJson(bytes);
  const verdict = judgeBody(bytes, response, { answers, result });
  if (verdict) meter.failure ??= verdict === 'nothing' ? nothingSaid : verdict;
  return verdict !== 'nothing';
}

/** Sends a body that is held, or starts to send one that is too large to be held. */
function sendHeld(plan: ResponsePlan, bytes: Buffer, whole: boolean): CallEnding | Promise<CallEnding> {
  const { response, answers } = plan;
  if (response.status === 204) {
    writeHead(plan);
    plan.res.end();
    return 'complete';
  }
  if (whole) {
    if (mayBeSent(plan, bytes)) return sendWhole(plan, bytes);
  } else if ((answers !== undefined && response.status < 300) || beginsAsJson(bytes)) {
    return sendLarge(plan, bytes);
  }
  response.data.destroy();
  throw invalidResponse(response);
}

/** Sends a body that is no stream of events. */
function sendBody(plan: ResponsePlan): CallEnding | Promise<CallEnding> {
  const { response, deadline, betweenChunks, answers } = plan;
  if (answers === 'bytes' && response.status < 300 && !holdsJson(answers, response))
    return sendLarge(plan, Buffer.alloc(0));
  const held = response.data.takeWhole(holdLimit);
  if (held) return sendHeld(plan, held, true);
  deadline.arm(betweenChunks);
  const collecting = collect(response.data, holdLimit, () => deadline.reset());
  return collecting.then(({ bytes, whole }) => sendHeld(plan, bytes, whole));
}

/**
 * Sends a stream of events as it comes. When it breaks off, it ends in an error event and without its last event, such as
 * `[DONE]`. What happens after the last event changes nothing: the client has everything.
 */
async function sendEvents(plan: ResponsePlan): Promise<CallEnding> {
  const { res, deadline, meter, dropsUsageChunk } = plan;
  /** Whether its first event is an error: then there is no response. */
  const wasError = meter.failure !== undefined;
  const search = plan.isUndecided && plan.result ? new ResultSearch(plan.result) : undefined;
  const saysNothing = (): boolean => search?.hasFound === false && !meter.failure;
  const framer = new EventFramer({
    marks: search ? anyMark : dropsUsageChunk ? errorOrUsage : errorWord,
    pass(bytes) {
      const { event, error } = readEvent(bytes);
      meter.failure ??= error;
      if (saysNothing() && isDoneEvent(event)) {
        meter.failure = nothingSaid;
        return Buffer.from(errorEvent(failure('upstream_invalid_response')));
      }
      return dropsUsageChunk && isUsageChunk(event) ? undefined : event;
    },
  });
  const end = streamEnd(plan, framer);
  /** Whether the last event had come when the client disconnected, if it did. */
  let hadAll = !deadline.client.disconnected;
  const handlers: StreamHandlers = {
    transform: framer,
    observer: {
      read(chunk) {
        meter.read(chunk);
        search?.read(chunk);
        end.read?.(chunk);
      },
    },
    // an error is the end of a stream, whether or not more should follow
    isWhole: () => meter.failure !== undefined || (!saysNothing() && (end.isDone || end.isWhole)),
    onDisconnect() {
      hadAll = end.isDone;
    },
    breakOff(_res, error) {
      if (end.isDone || meter.failure) {
        // its blank line has not come
        if (end.isDone) for (const last of framer.end()) res.write(last);
        res.end();
        return;
      }
      const event = end.errorEvent(failureFrom(error));
      res.end(framer.insideEvent ? `\n\n${event}` : event);
    },
  };
  writeHead(plan);
  const heartbeat = plan.heartbeat === undefined ? undefined : new Heartbeat(res, framer, plan.heartbeat);
  const ended = transfer(plan, heartbeat ? { ...handlers, transform: withHeartbeat(framer, heartbeat) } : handlers);
  res.flushHeaders();
  const ending = await ended;
  heartbeat?.stop();
  meter.events = framer.events;
  if (saysNothing() && ending !== 'client_left') meter.failure = nothingSaid;
  // the last event may be too large to be read
  if (end.lastType === 'response.failed') meter.failure ??= { blamesRequest: false };
  // any other error ends the stream of a response that is made in the background, and not the response
  const runsOn =
    meter.failure && plan.responseStream === 'background' && end.lastType !== 'response.failed' && !wasError;
  if (runsOn) meter.failure = undefined;
  // what a caller has sent comes back in the first events, whatever is called `usage` there included
  meter.trustsUsage = plan.responseStream === undefined || end.isDone;
  if (runsOn) return 'upstream_failed';
  return end.isDone && hadAll ? 'complete' : ending;
}

const errorOrUsage = new RegExp(`${errorWord.source}|${usageObject.source}`);
const anyMark = new RegExp(`${errorOrUsage.source}|\\[DONE\\]`);

function streamEnd(plan: ResponsePlan, framer: EventFramer): StreamEnd {
  const { response, endsInDone, responseStream, answers, meter } = plan;
  const { headers } = response;
  if (plan.streamEnd) return plan.streamEnd;
  if (responseStream !== undefined) return new ResponseEnd(responseStream, isDelimited(headers));
  // the endpoints whose answers are not always JSON are those of audio
  if (answers !== undefined) return new LastEvent(endOfAudio);
  return {
    get isDone() {
      return framer.done;
    },
    // a server behind the upstream that dies often leaves a stream that HTTP calls whole
    get isWhole() {
      return !endsInDone || (isDelimited(headers) && meter.isEnded);
    },
    errorEvent,
  };
}

/** Whether a body says where it ends (RFC 9112, section 6.3). If not, it ends with its connection, and so may half of it. */
function isDelimited(headers: OutboundResponse['headers']): boolean {
  return headers['content-length'] !== undefined || /\bchunked\b/i.test(String(headers['transfer-encoding'] ?? ''));
}

/** The same parts of a stream, each noted by its heartbeat. */
function withHeartbeat(framer: EventFramer, heartbeat: Heartbeat): Transform {
  return { push: (chunk) => heartbeat.sending(framer.push(chunk)), end: () => heartbeat.sending(framer.end()) };
}

/** Writes the head of the answer. */
function writeHead({ response, res, shownUpstream }: ResponsePlan, length?: number | string): void {
  setResponseHeaders(res, response.headers);
  if (shownUpstream !== undefined) res.setHeader('x-gateway-upstream', shownUpstream);
  if (length !== undefined) res.setHeader('content-length', length);
  res.writeHead(response.status);
}

/** Changes the bytes of a body before they are sent. */
interface Transform {
  /** @returns what can be sent now */
  push(chunk: Buffer): readonly Buffer[];
  /** What is still held when the body has ended. */
  end(): readonly Buffer[];
}

/** What is done with a body while it is sent. */
interface StreamHandlers {
  readonly transform?: Transform;
  /** Reads the bytes as the upstream sent them. */
  readonly observer?: { read(chunk: Buffer): void };
  /** Whether a body that ended is complete. @default it is */
  isWhole?(): boolean;
  /** Called when the client disconnects before the body has ended. */
  onDisconnect?(): void;
  /** Ends an answer when its body breaks off after its head has been sent. */
  breakOff(res: ServerResponse, error: OutboundError): void;
}

/**
 * Sends the body of a response whose head has been written; resolves to how that ended. Sends each chunk at once, and reads no faster than the
 * client does.
 */
function transfer(plan: ResponsePlan, handlers: StreamHandlers): Promise<CallEnding> {
  const { res, deadline, betweenChunks } = plan;
  const { data } = plan.response;
  const { transform, observer } = handlers;
  return new Promise((resolve) => {
    const finish = (ending: CallEnding): void => {
      res.off('drain', onDrain);
      res.off('close', onClose);
      resolve(ending);
    };
    const onDrain = (): void => {
      deadline.arm(betweenChunks);
      data.resume();
    };
    /** Resumes a paused body without its client: if the call may continue, to its end, otherwise to the end that the abort has begun. */
    const onClose = (): void => {
      handlers.onDisconnect?.();
      if (deadline.aborted) data.resume();
      else onDrain();
    };
    const onError = (error: OutboundError): void => {
      if (!res.destroyed) handlers.breakOff(res, error);
      finish(deadline.client.disconnected ? 'client_left' : 'upstream_failed');
    };
    res.on('drain', onDrain);
    res.on('close', onClose);
    deadline.arm(betweenChunks);
    data.flowTo({
      onChunk(chunk) {
        deadline.reset();
        observer?.read(chunk);
        let open = true;
        try {
          // when the client has left, the rest is still read: it may report the usage
          for (const part of transform?.push(chunk) ?? [chunk]) open = res.destroyed || res.write(part);
        } catch (error) {
          data.destroy();
          onError(classify(error));
          open = false;
        }
        // a client that reads slowly is not an upstream that stalls
        if (!open) deadline.disarm();
        return open;
      },
      onEnd() {
        // what is held may be what makes it whole
        const rest = transform?.end() ?? [];
        if (handlers.isWhole?.() === false) return onError(outboundError('reset'));
        if (deadline.client.disconnected) return finish('client_left');
        for (const part of rest) res.write(part);
        res.end();
        finish('complete');
      },
      onError,
    });
  });
}
