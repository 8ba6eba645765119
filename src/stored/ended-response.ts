import { JsonMembers } from '../http/json/search.ts';
import { newId } from '../ids.ts';
import type { OpenUsage, UsageRecord } from '../options/options.ts';
import { CallDeadline, noClient } from '../outbound/deadline.ts';
import type { ResponseBody } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { oneAnswer } from '../proxy/admission.ts';
import { usageFrom } from '../proxy/answer-body.ts';
import type { BackgroundUsage } from '../proxy/call-storage.ts';
import { failure, failureFrom } from '../proxy/failure.ts';
import { anthropicVersion } from '../proxy/headers.ts';
import { noToolUse, ToolCalls, type ToolUse } from '../proxy/hosted-tools.ts';
import type { RetryPolicy } from '../proxy/retry.ts';
import type { Upstream } from '../proxy/upstream.ts';
import { finalUsage, type MeteredCall, textBytes, type Used } from '../proxy/usage-meter.ts';
import { madeObjects } from './answer-ids.ts';
import { readBatchInput, usedByBatch } from './batch.ts';
import { readTraining, usedByJob } from './fine-tuning.ts';
import { kinds, runsOn, type StoredKind, statusMember } from './kinds.ts';
import { readMessageBatch, usedByMessageBatch } from './message-batch.ts';
import type { StoredObjects } from './service.ts';
import type { BackgroundResponse } from './stored-object.ts';
import { readStored } from './upstream-reads.ts';
import {
  endedRecord,
  type PolledWork,
  type ResponseState,
  readObject,
  type UsedByWork,
  type WorkInput,
  type WorkRequests,
} from './work.ts';

/**
 * Asks an upstream for the state of a response that is made in the background, of a batch or of a fine-tuning job.
 * @throws GatewayError with the code of an upstream's failure
 */
export type PollResponse = (response: BackgroundResponse) => Promise<ResponseState>;

/** What upstreams work on for long. */
export interface Work {
  /** Reads what is asked for, before it goes up. */
  readonly read: (input: WorkInput) => Promise<WorkRequests>;
  /** Where upstreams say how it goes. */
  readonly path: string;
  /** What it has used, when it has ended. */
  readonly used: UsedByWork;
}

export const works: { readonly [Kind in StoredKind]?: Work } = {
  batch: { read: readBatchInput, path: '/batches', used: usedByBatch },
  message_batch: { read: readMessageBatch, path: '/messages/batches', used: usedByMessageBatch },
  fine_tuning_job: { read: readTraining, path: '/fine_tuning/jobs', used: usedByJob },
};

/** The longest that one poll of a response takes; that of a batch may read all that it has answered. Milliseconds. */
const pollTimeout = 30_000;

export function createPollResponse(deps: {
  readonly upstreams: readonly Upstream[];
  readonly retry: RetryPolicy;
  readonly storedObjects: StoredObjects;
}): PollResponse {
  return async function pollResponse(object) {
    const { id, kind, userId, upstream: name, background } = object;
    const upstream = deps.upstreams.find((candidate) => candidate.name === name);
    // it may be configured in another process, or again later
    if (!upstream) throw failure('upstream_unreachable');
    const { total } = upstream.timeouts;
    const row = works[kind];
    const deadline = new CallDeadline(noClient, row ? total : Math.min(pollTimeout, total));
    const headers = kind === 'message_batch' ? anthropicVersion : {};
    const apiRequest = { principal: { userId }, requestId: newId('req', Date.now()), headers };
    try {
      if (row) return await pollWork({ ...deps, work: object, upstream, apiRequest, deadline }, row);
      const path = `/responses/${encodeURIComponent(id)}`;
      const response = await readStored({ apiRequest, deadline, upstream, path }, deps.retry, readToEnd);
      return response === null ? 'gone' : (response.record(background) ?? 'running');
    } catch (error) {
      throw error instanceof OutboundError ? failureFrom(error) : error;
    } finally {
      deadline.release();
    }
  };
}

/** Asks for what is worked on for long, and notes what it has made. */
async function pollWork(polled: PolledWork, { path, used }: Work): Promise<ResponseState> {
  const { work, storedObjects, retry } = polled;
  const object = await readStored({ ...polled, path: `${path}/${work.id}` }, retry, readObject);
  if (object === null) return 'gone';
  const status = object[statusMember(work.kind)];
  const isRunning = runsOn(work.kind, status);
  const makes = kinds[work.kind].work?.makes ?? {};
  // a job shows its models and checkpoints while it runs; the files of a batch are noted when it has ended
  if (!isRunning || makes.models) await storedObjects.addMade(madeObjects(object, makes), work);
  if (isRunning) return 'running';
  const ending = status === 'failed' ? 'upstream_failed' : 'complete';
  return endedRecord(work.background, await used(object, polled), ending);
}

/** Reads a response to its end. Rejects with the body's OutboundError. @param onProgress called for every chunk */
async function readToEnd(body: ResponseBody, onProgress: () => void): Promise<ResponseReader> {
  const reader = new ResponseReader();
  for await (const chunk of body.toReadable(onProgress)) reader.read(chunk);
  return reader;
}

/** The largest output whose text is told from the rest of it. Bytes. */
const keepLimit = 1024 * 1024;

/**
 * Reads what decides the usage record of a response out of its body, chunk by chunk, and holds no more of it. What a caller has
 * named `usage`, in its tools for one, counts for nothing.
 */
export class ResponseReader {
  readonly #status: string;
  readonly #values = new Map<string, unknown>();
  /** The lengths of those that are too large to be held. Bytes. */
  readonly #lengths = new Map<string, number>();
  readonly #tools = new ToolCalls();
  readonly #members: JsonMembers;

  /** @param kind what it is. @default a response */
  constructor(kind: StoredKind = 'response') {
    this.#status = statusMember(kind);
    this.#members = new JsonMembers({
      names: [this.#status, 'usage', 'output'],
      keepLimit,
      onMember: (name, value, length) => {
        if (length > keepLimit) this.#lengths.set(name, length);
        else this.#values.set(name, value);
      },
    });
  }

  read(chunk: Buffer): void {
    this.#members.read(chunk);
    this.#tools.read(chunk);
  }

  /** As far as it has come. */
  get status(): unknown {
    return this.#values.get(this.#status);
  }

  /**
   * The usage record of the response, when all of it has come; `undefined` where it has not ended.
   * @throws GatewayError `upstream_invalid_response` for what is no response
   */
  record(open: BackgroundUsage): UsageRecord | undefined {
    const values = this.#values;
    const lengths = this.#lengths;
    const status = values.get('status');
    if (!this.#members.isWhole || typeof status !== 'string') throw failure('upstream_invalid_response');
    if (runsOn('response', status)) return undefined;
    const bytes = lengths.get('output') ?? textBytes(values.get('output'));
    // the client may have read text of which this body says nothing: estimate as for a client that has left
    const hidesText =
      status === 'cancelled' && open.streams === true && !lengths.has('output') && isEmpty(values.get('output'));
    const silence = hidesText ? Date.now() - open.startedAt.getTime() : 0;
    const hasFailed = status === 'failed';
    const used = usedByResponse(values.get('usage'), { bytes, silence, tools: this.#tools.use }, open, {
      output: { choices: 1, maxTokens: open.maxOutputTokens },
      ending: hidesText ? 'client_left' : 'complete',
      hasFailed,
    });
    return endedRecord(open, used, hasFailed ? 'upstream_failed' : 'complete');
  }
}

/** The usage record of a response whose end is not known. */
export function unknownRecord(open: BackgroundUsage): UsageRecord {
  const call = { output: oneAnswer, ending: 'orphaned', hasFailed: false } as const;
  return endedRecord(open, usedByResponse(undefined, { bytes: 0 }, open, call), 'orphaned');
}

/**
 * What a response has used: tokens, and what hosted tools have done; or the transcription of something whose length is known.
 * @param usage as it reports it itself
 * @param seen what was read of it otherwise: the bytes of its text, its events, for how many milliseconds it was not read, and what tools have done for it
 */
export function usedByResponse(
  usage: unknown,
  {
    bytes,
    events = 0,
    silence = 0,
    tools = noToolUse,
  }: { readonly bytes: number; readonly events?: number; readonly silence?: number; readonly tools?: ToolUse },
  { inputTokens: estimatedInput, imageModels }: Pick<OpenUsage, 'inputTokens' | 'imageModels'>,
  call: Pick<MeteredCall, 'output' | 'ending' | 'hasFailed'>,
): Used {
  const measured = { bytes, textBytes: bytes, events, silence, images: 0, tools, duration: undefined };
  const unit = call.output.seconds === undefined ? {} : ({ unit: 'seconds' } as const);
  const endpoint = { answersImages: false, answersVectors: false, ...unit };
  return finalUsage({ reported: usageFrom(usage), ...measured }, { ...call, estimatedInput, imageModels, endpoint });
}

/** Whether an output has no text: no items, or only items that hold nothing but their status. */
function isEmpty(output: unknown): boolean {
  const items = Array.isArray(output) ? output : [output];
  return items.every((item) => textBytes({ ...item, status: undefined }) === 0);
}
