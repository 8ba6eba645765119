import { setImmediate as nextTurn } from 'node:timers/promises';
import { GatewayError, refuse } from '../errors.ts';
import type { BodyShape } from '../http/json/body-shape.ts';
import { outline } from '../http/json/scan.ts';
import { ByteBuffer } from '../http/json/tokens.ts';
import type { ApiRequest } from '../http/operation.ts';
import type { RequestedOutput, RequestedTools } from '../options/options.ts';
import type { ResponseBody } from '../outbound/exchange.ts';
import { type Fields, isObject, parsed, usageFrom } from '../proxy/answer-body.ts';
import type { BackgroundUsage } from '../proxy/call-storage.ts';
import { imageModel, toolUseOf } from '../proxy/hosted-tools.ts';
import { estimateInput, readModelBody, shortValue } from '../proxy/model-body.ts';
import { answerBytesPerToken, noUsage, type Used } from '../proxy/usage-meter.ts';
import { isStoredId } from './kinds.ts';
import { namedObjects, requireOwned, shapeOf, storedObjectNotFound, storedReferences } from './references.ts';
import { readStored } from './upstream-reads.ts';
import {
  fileOf,
  readFields,
  requireModels,
  type UsedByWork,
  type WorkInput,
  type WorkRequests,
  WorkSum,
} from './work.ts';

const inputFile = 'input_file_id';
/** The fields of a request for a batch. */
const batchFields: ReadonlySet<string> = new Set([
  inputFile,
  'endpoint',
  'completion_window',
  'metadata',
  'output_expires_after',
]);
/** The longest such request. Bytes. */
const longestBatchRequest = 64 * 1024;
/** The longest line of a file of requests, or of answers, that is read. Bytes. */
const longestLine = 16 * 1024 * 1024;
/** The most requests that a provider takes in a batch. */
const mostRequests = 50_000;

/** The longest text that is read of a line. Bytes. */
const longestText = 1024;
const line = shapeOf('', ['url', 'body'], longestText);
const conversation = shapeOf('conversation', ['id'], longestText);
const limits = ['n', 'best_of', 'max_tokens', 'max_completion_tokens', 'max_output_tokens'];
const toolNames = ['tools', 'max_tool_calls', 'web_search_options'];
const requestNames = ['model', 'prompt', 'input', 'previous_response_id', 'conversation', ...toolNames, ...limits];
const requestFields = shapeOf('', requestNames, longestText);
const request: BodyShape = {
  ...requestFields,
  properties: new Map([...requestFields.properties, ['conversation', conversation]]),
};

/** These answer no text. */
const withoutOutput: ReadonlySet<string> = new Set(['/v1/embeddings', '/v1/moderations']);
/** These answer images. */
const ofImages: ReadonlySet<unknown> = new Set(['/v1/images/generations', '/v1/images/edits']);

/**
 * Reads the file that a batch is made of, and requires of each request in it what is required of a call: that its account may use its
 * model, and owns what it names. Holds one line at a time.
 * @throws GatewayError with the line in its message and `input_file_id` as its `param`; with the code of an upstream's failure
 */
export async function readBatchInput(input: WorkInput): Promise<WorkRequests> {
  const { apiRequest, deadline, upstream, retry } = input;
  const file = fileOf(input);
  readFields(apiRequest.rawBody, batchFields, longestBatchRequest);
  const endpoint = shortValue(apiRequest.rawBody, apiRequest.fields.get('endpoint')) as string;
  const path = `/files/${encodeURIComponent(file.id)}/content`;
  const read = { apiRequest, deadline, upstream, path };
  const requests = await readStored(read, retry, async (body, onProgress) => {
    const sum = new RequestSum();
    for await (const { bytes, number } of linesOf(body, onProgress)) {
      await addRequest(sum, bytes, endpoint, input).catch((error: unknown) => {
        if (!(error instanceof GatewayError)) throw error;
        const { code, message } = error;
        throw new GatewayError(code, `${inputFile}: line ${number}: ${message}`, { param: inputFile });
      });
    }
    return sum.total();
  });
  if (requests === null) throw storedObjectNotFound({ kind: 'file', id: file.id, param: inputFile });
  return requests;
}

/** Adds up what requests ask for. */
class RequestSum {
  readonly #sum = new WorkSum();
  model: string | undefined;
  /** What requests before have named, and was found to be the account's own: kind and id. */
  readonly owned = new Set<string>();
  #count = 0;

  add(model: string, estimatedTokens: number, output: RequestedOutput): void {
    if (this.model !== undefined && model !== this.model) {
      refuse('invalid_value', 'body.model', `must be ${this.model}, as in the requests before`);
    }
    this.model = model;
    this.#count += 1;
    if (this.#count > mostRequests) {
      throw new GatewayError('request_too_large', `A batch may have ${mostRequests} requests at most`);
    }
    this.#sum.add(estimatedTokens, output);
  }

  /** @throws GatewayError `invalid_value` where there was none */
  total(): WorkRequests {
    const { model } = this;
    if (model === undefined) refuse('invalid_value', inputFile, 'must be a file with requests, one in a line');
    return { model, ...this.#sum.total() };
  }
}

async function addRequest(
  sum: RequestSum,
  bytes: Buffer | undefined,
  endpoint: string,
  input: WorkInput,
): Promise<void> {
  const { apiRequest, upstream, storedObjects } = input;
  const { principal } = apiRequest;
  if (!bytes) throw new GatewayError('request_too_large', `The request is larger than ${longestLine} bytes`);
  // some readers end a line there
  if (bytes.includes('\r')) throw new GatewayError('invalid_json', 'The request has a line break in it');
  const { fields: ofLine } = await outline(bytes, line);
  if (shortValue(bytes, ofLine.get('url')) !== endpoint) {
    refuse('invalid_value', 'url', `must be ${endpoint}, the endpoint of the batch`);
  }
  const span = ofLine.get('body');
  if (!span) refuse('missing_required_parameter', 'body', 'is required: the request itself');
  const rawBody = bytes.subarray(span.start, span.end);
  const { fields, value: body } = await outline(rawBody, request);
  const read = readModelBody({ rawBody, fields, body: body as ApiRequest['body'] }, endpoint.replace('/v1', ''));
  const { model } = read;
  if (model === undefined) refuse('missing_required_parameter', 'body.model', 'is required');
  const tools = await requireModels(model, { rawBody, fields, body: body as ApiRequest['body'] }, 'body.model', input);
  const named = { rawBody, fields };
  const all = [...storedReferences(named), ...(await namedObjects(named))];
  const references = all.filter(({ kind, id }) => !sum.owned.has(`${kind} ${id}`));
  await requireOwned(storedObjects, { ...named, principal }, { references, itemsIn: 'input' }, [upstream]);
  for (const { kind, id, mayBeUnknown } of references) if (!mayBeUnknown) sum.owned.add(`${kind} ${id}`);
  const images = ofImages.has(endpoint) ? { images: read.output.choices, imageModels: [model] } : undefined;
  const makers = images ?? tools?.requested;
  const output = makers ? { ...read.output, tools: makers } : read.output;
  const isCharged = endpoint !== '/v1/moderations';
  sum.add(
    model,
    isCharged ? estimateInput(rawBody, read) : 0,
    withoutOutput.has(endpoint) ? { ...output, maxTokens: 0 } : output,
  );
}

/** A line of a file. */
export interface Line {
  /** Without the white space at its ends; `undefined` where it is too long. */
  readonly bytes: Buffer | undefined;
  /** Counted from 1. */
  readonly number: number;
  /** Bytes. */
  readonly length: number;
}

/** Lines that are read in one turn of the event loop. */
const linesPerTurn = 200;

/** The lines of a body that are not blank. Rejects with the body's OutboundError. */
export async function* linesOf(body: ResponseBody, onProgress: () => void): AsyncGenerator<Line> {
  const held = new ByteBuffer(longestLine);
  let number = 1;
  /** Of the line that has begun. */
  let length = 0;
  let read = 0;
  const ended = (rest: Buffer): Line => {
    const whole = length + rest.length;
    return { bytes: whole > longestLine ? undefined : trimmed(held.take(rest)), number, length: whole };
  };
  for await (const chunk of body.toReadable(onProgress) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let at = chunk.indexOf('\n'); at !== -1; at = chunk.indexOf('\n', from)) {
      if (length > 0 || at > from) {
        const line = ended(chunk.subarray(from, at));
        if (line.bytes?.length !== 0) yield line;
        read += 1;
        if (read % linesPerTurn === 0) await nextTurn();
      }
      from = at + 1;
      number += 1;
      length = 0;
    }
    const rest = chunk.subarray(from);
    length += rest.length;
    if (length <= longestLine) held.add(rest);
    else held.take();
    await nextTurn();
  }
  const last = length > 0 ? ended(Buffer.alloc(0)) : undefined;
  if (last && last.bytes?.length !== 0) yield last;
}

/** Without the white space of JSON at its ends: a line may end with a carriage return. */
function trimmed(bytes: Buffer): Buffer {
  const isBlank = (at: number): boolean => (bytes[at] as number) <= 0x20;
  let start = 0;
  let end = bytes.length;
  while (start < end && isBlank(start)) start += 1;
  while (end > start && isBlank(end - 1)) end -= 1;
  return bytes.subarray(start, end);
}

/** What a batch has used by its own word, or else by that of the answers in its output file, as far as they say it. */
export const usedByBatch: UsedByWork = async (batch, { work, retry, ...read }) => {
  const { usage, output_file_id: output, status, request_counts: counts } = batch;
  const reported = usageFrom(usage);
  const isReported = reported && reported.inputTokens + reported.outputTokens > 0;
  const { tools } = work.background;
  // only its answers show what tools have done
  if (isReported && !tools) return { ...noUsage, ...reported };
  if (isStoredId(output)) {
    const path = `/files/${encodeURIComponent(output)}/content`;
    const used = await readStored({ ...read, path }, retry, (body, onProgress) =>
      sumUsage(linesOf(body, onProgress), tools, ofImages.has(batch.endpoint)),
    );
    if (used) return isReported ? { ...used, ...reported, estimated: false } : withEstimate(used, work.background);
  }
  if (isReported) return { ...noUsage, ...reported };
  const { completed } = (counts ?? {}) as { readonly completed?: unknown };
  if ((status !== 'completed' && !output) || completed === 0 || (reported && !output)) return noUsage;
  // what it has made was deleted before it was counted, or nobody says what it has used
  const unseen = ofImages.has(batch.endpoint) ? { images: tools?.images ?? 0 } : {};
  return withEstimate({ ...noUsage, ...unseen, estimated: true }, work.background);
};

/** With the estimate of its input where its answers do not say it, and no more output than was asked for. */
export function withEstimate(
  used: Used,
  { inputTokens, maxOutputTokens = Number.POSITIVE_INFINITY }: BackgroundUsage,
): Used {
  if (!used.estimated) return used;
  const outputTokens = Math.min(used.outputTokens, maxOutputTokens);
  return { ...used, inputTokens: Math.max(used.inputTokens, inputTokens), outputTokens };
}

/** What of the answers' usage is added up as it is. */
const addedUp = [
  'inputTokens',
  'cachedInputTokens',
  'reasoningTokens',
  'cacheWriteTokens',
  'inputAudioTokens',
  'cachedInputAudioTokens',
  'outputAudioTokens',
  'images',
  'webSearchCalls',
  'fileSearchCalls',
  'codeInterpreterCalls',
] as const;

/**
 * Adds up the usage that the answers in an output file report; of others, what their bytes tell, or how many images they have.
 * @param tools what hosted tools, or an endpoint of images, may do for them
 */
async function sumUsage(
  lines: AsyncIterable<Line>,
  tools: RequestedTools | undefined,
  areImages: boolean,
): Promise<Used> {
  const sum = { ...noUsage };
  let hasUnread = false;
  for await (const { bytes, length } of lines) {
    const { response } = ((bytes && parsed(bytes.toString())) ?? {}) as {
      readonly response?: { readonly body?: Fields | null; readonly status_code?: number } | null;
    };
    // what has failed costs nothing; a line that is too long is an answer
    if (bytes && (!response || (response.status_code ?? 200) >= 400)) continue;
    const usage = usageFrom(response?.body?.usage);
    // an answer that is too long has images, where it may have some
    const toolUse = bytes ? toolUseOf(response?.body ?? {}, usage) : { images: tools?.images ? 1 : 0 };
    const added: Partial<Used> = areImages ? { ...usage, images: imagesIn(response?.body) } : { ...usage, ...toolUse };
    hasUnread ||= !bytes;
    for (const name of addedUp) if (added[name]) sum[name] = (sum[name] ?? 0) + added[name];
    sum.outputTokens += usage?.outputTokens ?? (areImages ? 0 : Math.ceil(length / answerBytesPerToken));
    sum.estimated ||= usage === undefined && !(areImages && bytes);
  }
  // of images that nobody could count, all that were asked for are there
  if (areImages && hasUnread) sum.images = Math.max(sum.images, tools?.images ?? 0);
  return sum.images > 0 ? { ...sum, imageModels: tools?.imageModels ?? [imageModel] } : sum;
}

/** How many images an answer has. */
function imagesIn(body: Fields | null | undefined): number {
  const data = Array.isArray(body?.data) ? (body.data as readonly unknown[]) : [];
  return data.filter((image) => isObject(image) && ('b64_json' in image || 'url' in image)).length;
}
