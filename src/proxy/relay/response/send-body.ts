import type { ServerResponse } from 'node:http';
import type { CallEnding } from '../../../options/options.ts';
import { failure } from '../../failure.ts';
import { collect } from '../collect.ts';
import { isJson } from '../is-json.ts';
import { EmbeddingRepair } from './embedding-repair.ts';
import { errorInBody } from './error-inside.ts';
import { type ResponsePlan, writeHead } from './response-plan.ts';
import { type StreamHandlers, transfer } from './transfer.ts';

/** The largest answer that is held until it is whole. Bytes. */
export const holdLimit = 256 * 1024;

/** The largest answer that is sent in one piece with its head. Bytes. */
const joinedLimit = 16 * 1024;

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

/** Whether a body is read as JSON. A speaker might say what looks like it, so other answers must be labelled. Pure. */
export function holdsJson({ answers, response }: Pick<ResponsePlan, 'answers' | 'response'>): boolean {
  return answers === undefined || /^application\/(?:[\w.-]+\+)?json\b/i.test(String(response.headers['content-type']));
}

/** Sends a body as it comes: one that is too large to be held, or that cannot be read. */
export function sendLarge(plan: ResponsePlan, first: Buffer): Promise<CallEnding> {
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
  if (plan.looksForError && holdsJson(plan)) meter.failure ??= errorInBody(bytes);
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
export async function sendBody(plan: ResponsePlan): Promise<CallEnding> {
  const { response, deadline, betweenChunks, answers } = plan;
  if (answers === 'bytes' && response.status < 300 && !holdsJson(plan)) return sendLarge(plan, Buffer.alloc(0));
  const bytes = response.data.takeWhole();
  if (bytes) return sendHeld(plan, bytes, true);
  deadline.arm(betweenChunks);
  const held = await collect(response.data, holdLimit, () => deadline.reset());
  return sendHeld(plan, held.bytes, held.whole);
}
