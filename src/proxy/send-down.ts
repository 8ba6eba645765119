import type { ServerResponse } from 'node:http';
import type { CallEnding } from '../options.ts';
import type { HttpResponse } from '../outbound/client.ts';
import { collect } from './collect.ts';
import type { Cutoff } from './cutoff.ts';
import { EmbeddingRepair } from './embedding-repair.ts';
import { type EventFilter, EventFramer, keepAll } from './event-framer.ts';
import { errorEvent, failure, failureOf } from './failure.ts';
import type { Gauge } from './gauge.ts';
import { type HeaderValues, isEncoded, isEventStream } from './headers.ts';
import { type Course, transfer } from './transfer.ts';
import { holdsUsage, isUsageChunk } from './usage-chunk.ts';

/** The largest answer that is held until it is whole. Bytes. */
const holdLimit = 256 * 1024;

/** One answer on its way down, and what has to happen to it. */
export interface Descent {
  readonly response: HttpResponse;
  /** The head it goes down with, but for its length. */
  readonly headers: Record<string, string>;
  readonly res: ServerResponse;
  readonly cutoff: Cutoff;
  readonly betweenChunks: number;
  readonly gauge: Gauge;
  /** Whether the usage chunk at a stream's end is taken out, because the caller did not ask for it. */
  readonly dropsUsageChunk: boolean;
  /** Whether vectors of numbers become base64. */
  readonly repairsVectors: boolean;
}

const withoutUsageChunk: EventFilter = { mayDrop: holdsUsage, keeps: (event) => !isUsageChunk(event) };

/** Half a JSON body must not look whole: the connection is cut, so that the client sees a failed transfer. */
const cut = (res: ServerResponse): void => void res.destroy();

/** Sends a stream of events down as it comes; it ends in an error event when it breaks off, and then without `[DONE]`. */
async function sendEvents(descent: Descent): Promise<CallEnding> {
  const { response, headers, res, cutoff, betweenChunks, gauge, dropsUsageChunk } = descent;
  const framer = new EventFramer(dropsUsageChunk ? withoutUsageChunk : keepAll);
  const course: Course = {
    stage: framer,
    tap: gauge,
    breakOff(_res, error) {
      const event = errorEvent(failureOf(error));
      res.end(framer.insideEvent ? `\n\n${event}` : event);
    },
  };
  res.writeHead(response.status, headers);
  const ended = transfer(response.data, res, cutoff, betweenChunks, course);
  res.flushHeaders();
  const ending = await ended;
  gauge.events = framer.events;
  return ending;
}

/** Sends a body down as it comes, which is too large to be held or cannot be read. */
function sendLarge({ response, headers, res, cutoff, betweenChunks, gauge, repairsVectors }: Descent, first: Buffer) {
  const stage = repairsVectors ? new EmbeddingRepair() : undefined;
  const length = (response.headers as HeaderValues)['content-length'];
  if (!stage && typeof length === 'string') headers['content-length'] = length;
  const parts = stage ? stage.push(first) : [first];
  gauge.read(first);
  const course: Course = { ...(stage && { stage }), tap: gauge, breakOff: cut };
  res.writeHead(response.status, headers);
  for (const part of parts) res.write(part);
  return transfer(response.data, res, cutoff, betweenChunks, course);
}

/** Sends a body down that is whole, and JSON. */
function sendWhole({ response, headers, res, gauge, repairsVectors }: Descent, bytes: Buffer): CallEnding {
  gauge.read(bytes);
  let body = bytes;
  if (repairsVectors) {
    const repair = new EmbeddingRepair();
    body = Buffer.concat([...repair.push(bytes), ...repair.end()]);
  }
  headers['content-length'] = String(body.length);
  res.writeHead(response.status, headers);
  res.end(body);
  return 'complete';
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString('utf8'));
    return true;
  } catch {
    return false;
  }
}

/** Whether bytes begin as a JSON object or list does; of a body too large to be held no more can be said. */
function beginsAsJson(bytes: Buffer): boolean {
  return /^\s*[[{]/.test(bytes.toString('latin1', 0, 64));
}

/** Sends an answer down; resolves to how that ended. Rejects with a GatewayError or OutboundError as long as nothing has been sent. */
export async function sendDown(descent: Descent): Promise<CallEnding> {
  const { response, cutoff, betweenChunks } = descent;
  const upstreamHeaders = response.headers as HeaderValues;
  if (isEncoded(upstreamHeaders)) return sendLarge({ ...descent, repairsVectors: false }, Buffer.alloc(0));
  if (isEventStream(upstreamHeaders) && response.status < 300) return sendEvents(descent);

  cutoff.expect(betweenChunks);
  const { bytes, whole } = await collect(response.data, holdLimit);
  if (whole ? isJson(bytes) : beginsAsJson(bytes)) {
    return whole ? sendWhole(descent, bytes) : sendLarge(descent, bytes);
  }
  response.data.destroy();
  // a client's own retries would not help where the request was refused
  const details = response.status >= 500 || response.status < 400 ? {} : { headers: { 'x-should-retry': 'false' } };
  throw failure('upstream_invalid_response', details);
}
