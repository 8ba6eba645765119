import type { ServerResponse } from 'node:http';
import { ByteBuffer, JsonSearch, searchedKey } from '../http/json/search.ts';
import type { CallEnding } from '../options/options.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { beginsAsEvents, collect, isJson, PeekedBody } from './answer-body.ts';
import { failure } from './failure.ts';
import { isEncoded, isEventStream } from './headers.ts';
import { errorInBody, holdLimit, holdsJson } from './inspect-answer.ts';
import { sendEvents } from './send-events.ts';
import { type ResponsePlan, type StreamHandlers, transfer, writeHead } from './transfer.ts';

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

/** Sends what should be a stream but is labelled as something else: a stream if it begins like one. */
async function sendUnlabelled(plan: ResponsePlan): Promise<CallEnding> {
  const { response, deadline, betweenChunks } = plan;
  const data = new PeekedBody(response.data);
  deadline.arm(betweenChunks);
  const isEvents = await data.peek((start) => beginsAsEvents(start.bytes()), { onProgress: () => deadline.reset() });
  if (!isEvents) return sendBody({ ...plan, response: { ...response, data } });
  const headers = { ...response.headers, 'content-type': 'text/event-stream; charset=utf-8' };
  return sendEvents({ ...plan, response: { ...response, headers, data } });
}

/** Drops the connection, so that the client sees a failed transfer and does not take half a JSON body for a whole one. */
const cut = (res: ServerResponse): void => void res.destroy();

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
  return transfer(plan, handlers);
}

function sendWhole(plan: ResponsePlan, bytes: Buffer): CallEnding {
  const { res, deadline, meter, repairsVectors } = plan;
  if (plan.looksForError && holdsJson(plan.answers, plan.response)) meter.failure ??= errorInBody(bytes);
  if (mayReport(plan, bytes)) meter.read(bytes);
  else meter.skip(bytes);
  if (deadline.clientDisconnected) return 'client_left';
  const sent = repairsVectors ? repaired(bytes) : bytes;
  writeHead(plan, sent.length);
  res.end(sent);
  return 'complete';
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
    if (mayBeAny || isJson(bytes)) return sendWhole(plan, bytes);
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
  if (answers === 'bytes' && response.status < 300 && !holdsJson(answers, response))
    return sendLarge(plan, Buffer.alloc(0));
  deadline.arm(betweenChunks);
  const held = await collect(response.data, holdLimit, () => deadline.reset());
  return sendHeld(plan, held.bytes, held.whole);
}

/** The largest vector that is held until it is whole. Bytes; 1 MiB is about 50,000 dimensions. */
const vectorLimit = 1024 * 1024;
const bytesOfFloat = 4;
const vectors = searchedKey('embedding', '[');

/** A vector, written as JSON, as a JSON string with the base64 of its little-endian 32-bit floats. */
function toBase64(vector: Buffer): string {
  try {
    const numbers = JSON.parse(vector.toString('latin1')) as unknown[];
    const bytes = Buffer.allocUnsafe(numbers.length * bytesOfFloat);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    for (let i = 0; i < numbers.length; i += 1) {
      const number = numbers[i];
      if (typeof number !== 'number') throw new TypeError(`number ${i} is a ${typeof number}`);
      view.setFloat32(i * bytesOfFloat, number, true);
    }
    return `"${bytes.toString('base64')}"`;
  } catch (cause) {
    throw new OutboundError('invalid_response', 'an embedding is no list of numbers', { cause });
  }
}

/**
 * Turns vectors of numbers into base64 while an answer is sent, one vector at a time, and leaves every other byte alone.
 * OpenAI's clients ask for base64 by default, and read a list of numbers as zeros; many upstreams answer numbers
 * nevertheless.
 */
export class EmbeddingRepair {
  readonly #search = new JsonSearch(vectors);
  readonly #held = new ByteBuffer(vectorLimit);

  /** @throws OutboundError when a vector is no list of numbers or larger than 1 MiB */
  push(chunk: Buffer): Buffer[] {
    const search = this.#search;
    const out: Buffer[] = [];
    for (let at = 0; at < chunk.length; ) {
      const wasInside = search.isInside;
      const end = search.next(chunk, at);
      const part = chunk.subarray(at, end);
      if (!wasInside) {
        if (part.length > 0) out.push(part);
      } else if (!search.isInside) out.push(Buffer.from(toBase64(this.#held.take(part))));
      else if (!this.#held.add(part)) {
        throw new OutboundError('invalid_response', 'an embedding is too large to be repaired');
      }
      at = end;
    }
    return out;
  }

  /** A vector that breaks off is passed on unchanged. */
  end(): Buffer[] {
    const rest = this.#held.take();
    return rest.length === 0 ? [] : [rest];
  }
}

/** A whole answer with its vectors repaired. @throws OutboundError */
function repaired(answer: Buffer): Buffer {
  const repair = new EmbeddingRepair();
  return Buffer.concat([...repair.push(answer), ...repair.end()]);
}
