import { GatewayError, refuse } from '../errors.ts';
import type { BodyShape } from '../http/json/body-shape.ts';
import { outline } from '../http/json/scan.ts';
import { eachText } from '../http/json/search.ts';
import type { ApiRequest } from '../http/operation.ts';
import { type OutboundResponse, ResponseBody } from '../outbound/exchange.ts';
import { classify, outboundError } from '../outbound/outbound-error.ts';
import { collect, type Fields, isObject, parsed } from '../proxy/answer-body.ts';
import { failure } from '../proxy/failure.ts';
import { isEncoded } from '../proxy/headers.ts';
import { attachmentsIn, cacheWritesIn, MessageReader } from '../proxy/messages.ts';
import { countIn, estimateInput, longestValue } from '../proxy/model-body.ts';
import { answerBytesPerToken, noUsage, type Used } from '../proxy/usage-meter.ts';
import { type Line, linesOf, withEstimate } from './batch.ts';
import { requireOwned, shapeOf } from './references.ts';
import { readStored } from './upstream-reads.ts';
import { requireModels, type UsedByWork, type WorkInput, type WorkRequests, WorkSum } from './work.ts';

/** The most requests that a provider takes in a batch. */
const mostRequests = 100_000;
/** The longest text that is read of a request. Bytes. */
const longestText = 1024;

const shape = (names: readonly string[], more: readonly (readonly [string, BodyShape])[] = []): BodyShape => {
  const plain = shapeOf(undefined, [...names, ...more.map(([name]) => name)], longestText);
  // another reader might find another value in a field that is there twice
  return { ...plain, properties: new Map([...plain.properties, ...more]), isStrict: true };
};
const listOf = (items: BodyShape): BodyShape => ({ ...shape([]), items });
const params = shape(
  ['model', 'max_tokens'],
  [
    ['tools', listOf(shape(['type', 'max_uses']))],
    ['container', shape(['id'])],
  ],
);
const batch = shape([], [['requests', listOf(shape([], [['params', params]]))]]);

/** What is read of the body of a request in a batch. */
interface RequestParams {
  readonly model?: unknown;
  readonly max_tokens?: unknown;
  readonly tools?: readonly unknown[];
  readonly container?: unknown;
}

/** The model that a batch names first, which says where it goes; `undefined` where it names none. */
export async function firstModel(rawBody: Buffer): Promise<string | undefined> {
  let model: string | undefined;
  await eachText(rawBody, { keys: ['model'], longest: longestValue }, ({ text, open }) => {
    // requests[0].params.model
    if (open.length === 4) model = text;
    return model === undefined;
  });
  return model;
}

/**
 * Reads the requests of a batch of messages, and requires of each what is required of a call: that its account may use its model, and owns what
 * it names.
 * @throws GatewayError that names the request
 */
export async function readMessageBatch(input: WorkInput): Promise<WorkRequests> {
  const { apiRequest, upstream, storedObjects } = input;
  const { rawBody } = apiRequest;
  const { value } = await outline(rawBody, batch);
  const { requests } = value as { readonly requests?: unknown };
  if (!Array.isArray(requests) || requests.length === 0) {
    refuse('invalid_value', 'requests', 'must be a list with at least one request');
  }
  if (requests.length > mostRequests) {
    throw new GatewayError('request_too_large', `A batch may have ${mostRequests} requests at most`);
  }
  const sum = new WorkSum();
  const containers = new Map<string, string>();
  let model: string | undefined;
  for (const [i, each] of requests.entries()) {
    const at = `requests[${i}].params`;
    const asked = paramsOf(each, at);
    if (typeof asked.model !== 'string') refuse('missing_required_parameter', `${at}.model`, 'is required');
    if (model !== undefined && asked.model !== model) {
      refuse('invalid_value', `${at}.model`, `must be ${model}, as in the requests before`);
    }
    model = asked.model;
    const maxTokens = countIn(`${at}.max_tokens`, asked.max_tokens);
    const searches = searchesOf(asked.tools);
    const tools = searches > 0 ? { tools: { webSearchCalls: searches } } : {};
    sum.add(0, { choices: 1, maxTokens: maxTokens > 0 ? maxTokens : undefined, ...tools });
    const container = isObject(asked.container) ? asked.container.id : asked.container;
    if (typeof container === 'string') containers.set(container, `${at}.container`);
  }
  const called = model as string;
  await requireModels(called, { rawBody, fields: new Map(), body: {} as ApiRequest['body'] }, 'requests', input);
  const references = [...containers].map(([id, param]) => ({ kind: 'container', id, param }) as const);
  await requireOwned(storedObjects, apiRequest, { references }, [upstream]);
  const files = attachmentsIn(rawBody);
  const output = { ...sum.total().output, ...cacheWritesIn(rawBody) };
  return { model: called, output, estimatedTokens: estimateInput(rawBody, { listedTokens: 0, files }) };
}

function paramsOf(request: unknown, at: string): RequestParams {
  const { params } = isObject(request) ? request : ({} as Fields);
  if (!isObject(params)) refuse('missing_required_parameter', at, 'is required: the request itself');
  return params as RequestParams;
}

/** The searches of the web to expect of a request: as many as its tools may make, or one. */
function searchesOf(tools: unknown): number {
  const list: readonly unknown[] = Array.isArray(tools) ? tools : [];
  return list.reduce((sum: number, tool) => {
    if (!isObject(tool) || !String(tool.type).startsWith('web_search')) return sum;
    return sum + Math.max(1, countIn('max_uses', tool.max_uses));
  }, 0);
}

/** What a batch has used: the sum of what its results say. */
export const usedByMessageBatch: UsedByWork = async ({ id, request_counts: counts }, { work, retry, ...read }) => {
  const { succeeded } = (isObject(counts) ? counts : {}) as { readonly succeeded?: unknown };
  if (succeeded === 0) return noUsage;
  const path = `/messages/batches/${encodeURIComponent(String(id))}/results`;
  const used = await readStored({ ...read, path }, retry, (body, onProgress) => sumResults(linesOf(body, onProgress)));
  return withEstimate(used ?? { ...noUsage, estimated: true }, work.background);
};

async function sumResults(lines: AsyncIterable<Line>): Promise<Used> {
  const sum = { ...noUsage };
  for await (const { bytes, length } of lines) {
    const { result } = (bytes && parsed(bytes.toString())) ?? ({} as Fields);
    const { type, message } = isObject(result) ? result : ({} as Fields);
    // what has failed, expired or was canceled costs nothing; a line that is too long is a message
    if (bytes && type !== 'succeeded') continue;
    const reader = new MessageReader();
    if (isObject(message)) reader.addUsage(message.usage);
    const { reported } = reader;
    if (!reported) sum.estimated = true;
    sum.outputTokens += reported?.outputTokens ?? Math.ceil(length / answerBytesPerToken);
    sum.inputTokens += reported?.inputTokens ?? 0;
    sum.cachedInputTokens += reported?.cachedInputTokens ?? 0;
    for (const name of ['cacheWriteTokens', 'cacheWriteHourTokens', 'webSearchCalls'] as const) {
      if (reported?.[name]) sum[name] = (sum[name] ?? 0) + reported[name];
    }
  }
  return sum;
}

/** The address of the results of a batch, in the only member of its answers that has one. */
const resultsUrl = /("results_url"\s*:\s*)"(?:[^"\\]|\\.)*"/g;

/**
 * The bytes of a batch with the address of its results here in place of that at the upstream, to which its client would send the gateway's key. Below
 * the client's base URL it is relative.
 */
export function ownAddress(bytes: Buffer): Buffer {
  const text = bytes.toString();
  const { id } = parsed(text) ?? {};
  const path = `/v1/messages/batches/${encodeURIComponent(String(id))}/results`;
  return Buffer.from(text.replace(resultsUrl, (_, key: string) => `${key}${JSON.stringify(path)}`));
}

/** The largest description of a batch. Bytes. */
const largestBatch = 1024 * 1024;

/** The same for an answer. @throws GatewayError `upstream_invalid_response` where it cannot be read */
export function withOwnAddress(response: OutboundResponse): OutboundResponse {
  const { data: source } = response;
  if (isEncoded(response.headers)) {
    source.destroy();
    throw failure('upstream_invalid_response');
  }
  const { 'content-length': _, ...headers } = response.headers;
  const data = new ResponseBody({ pause() {}, resume() {}, abort: () => source.destroy() });
  collect(source, largestBatch).then(
    ({ bytes, whole }) => {
      if (whole) data.push(ownAddress(bytes));
      else source.destroy();
      data.settle(whole ? 'end' : outboundError('invalid_response'));
    },
    (error) => data.settle(classify(error)),
  );
  return { ...response, headers: { ...headers, 'transfer-encoding': 'chunked' }, data };
}
