import { GatewayError, isGatewayError, refuse } from '../errors.ts';
import type { ApiRequest } from '../http/operation.ts';
import { toolCounts } from '../options/accounts.ts';
import type { OpenUsage, RequestedOutput, RequestedTools, UsageRecord } from '../options/options.ts';
import type { CallDeadline } from '../outbound/deadline.ts';
import type { ResponseBody } from '../outbound/exchange.ts';
import { requireAllowedModel } from '../proxy/admission.ts';
import { collect, type Fields, parsed } from '../proxy/answer-body.ts';
import type { BackgroundUsage } from '../proxy/call-storage.ts';
import { failure } from '../proxy/failure.ts';
import { type HostedTools, readHostedTools } from '../proxy/hosted-tools.ts';
import { checkModelName } from '../proxy/model-body.ts';
import type { RetryPolicy } from '../proxy/retry.ts';
import { routeModel, type Upstream, upstreamModelName } from '../proxy/upstream.ts';
import { closedRecord, type Used } from '../proxy/usage-meter.ts';
import type { StoredObjects } from './service.ts';
import type { BackgroundResponse, StoredObject } from './stored-object.ts';
import type { readStored } from './upstream-reads.ts';

/** What an upstream is asked to work on for long: the requests of a batch, or a training. */
export interface WorkRequests {
  /** The only one. */
  readonly model: string;
  readonly estimatedTokens: number;
  readonly output: RequestedOutput;
  /** The body that goes up. @default as it came */
  readonly data?: Buffer | readonly Buffer[];
}

/** What such work is made of: a file, or the body of its request. */
export interface WorkInput {
  readonly apiRequest: ApiRequest;
  readonly deadline: CallDeadline;
  /** The upstream that keeps the file, or that is to do the work. */
  readonly upstream: Upstream;
  /** `undefined` where the body has the requests. */
  readonly file: StoredObject | undefined;
  readonly storedObjects: StoredObjects;
  readonly retry: RetryPolicy;
}

/** What an upstream says of what it works on after the call: how it has ended, that it runs, or that it does not keep it. */
export type ResponseState = UsageRecord | 'running' | 'gone';

/** Such work, of which its upstream is asked for the state. */
export interface PolledWork extends Pick<WorkInput, 'storedObjects' | 'retry' | 'deadline' | 'upstream'> {
  readonly work: BackgroundResponse;
  readonly apiRequest: Parameters<typeof readStored>[0]['apiRequest'];
}

/** What such work has used, by what its upstream says of it when it has ended. @throws GatewayError, OutboundError as `readStored` does */
export type UsedByWork = (object: Fields, polled: PolledWork) => Promise<Used>;

/** The usage record of what an upstream has worked on after the call for it. */
export function endedRecord(open: BackgroundUsage, used: Used, ending: UsageRecord['ending']): UsageRecord {
  const { upstream, startedAt, firstByteMs } = open;
  const durationMs = Math.max(firstByteMs, Date.now() - startedAt.getTime());
  return closedRecord(open, used, { upstream, ending, durationMs, firstByteMs });
}

/** Of each kind, what an account may have that has not ended. */
export const mostUnfinished = 200;

/** The usage of work that is made, before an upstream begins it. */
export type WorkUsage = OpenUsage & Pick<BackgroundUsage, 'maxOutputTokens' | 'tools'>;

/** Adds up what several requests ask for. */
export class WorkSum {
  #tokens = 0;
  /** Answers whose requests do not say how long they may be. */
  #unlimited = 0;
  /** The most output of all others. Tokens. */
  #limited = 0;
  #tools: RequestedTools | undefined;

  add(estimatedTokens: number, { choices, maxTokens, tools }: RequestedOutput): void {
    if (tools) this.#tools = addedTools(this.#tools ?? {}, tools);
    this.#tokens += estimatedTokens;
    if (maxTokens === undefined) this.#unlimited += choices;
    else this.#limited += choices * maxTokens;
  }

  total(): Pick<WorkRequests, 'estimatedTokens' | 'output'> {
    const [choices, limited] = [this.#unlimited, this.#limited];
    const output =
      choices === 0 ? { choices: 1, maxTokens: limited } : { choices, maxTokens: undefined, furtherTokens: limited };
    return { estimatedTokens: this.#tokens, output: { ...output, ...(this.#tools && { tools: this.#tools }) } };
  }
}

/** What hosted tools may do for two requests together. */
function addedTools(one: RequestedTools, other: RequestedTools): RequestedTools {
  const counts = (['images', ...Object.values(toolCounts)] as const).map((name) => [
    name,
    (one[name] ?? 0) + (other[name] ?? 0),
  ]);
  const imageModels = [...new Set([...(one.imageModels ?? []), ...(other.imageModels ?? [])])];
  return { ...Object.fromEntries(counts), ...(imageModels.length > 0 && { imageModels }) };
}

/** The file that work is made of whose row says so. */
export function fileOf({ file }: WorkInput): StoredObject {
  if (file) return file;
  throw new Error('this work is made of a file');
}

/**
 * Requires of a model that such work names what is required of a model that is called, and that the upstream of the file serves it.
 * @throws GatewayError `invalid_value`, `model_not_allowed`, `model_not_found`, `database_unavailable`
 */
export async function requireModel(name: string, { apiRequest, upstream, storedObjects }: WorkInput): Promise<void> {
  const { principal } = apiRequest;
  checkModelName(name);
  requireAllowedModel(principal, name);
  try {
    await routeModel([upstream], name, principal.userId, storedObjects.models);
  } catch (error) {
    if (!isGatewayError(error) || error.code !== 'model_not_found') throw error;
    const message = `${error.message}. If it is there, the provider that keeps the file does not serve it`;
    throw new GatewayError('model_not_found', message, { param: 'model', cause: error });
  }
}

/**
 * Requires of each model that a request of a batch names, its own and those of its hosted tools, what is required where it is called, and that the
 * upstream has no other name for it: a batch goes up as it is.
 * @param param names its own in an error
 * @returns its hosted tools
 * @throws GatewayError as {@link requireModel} does
 */
export async function requireModels(
  model: string,
  request: Parameters<typeof readHostedTools>[0],
  param: string,
  input: WorkInput,
): Promise<HostedTools | undefined> {
  const { apiRequest, upstream, storedObjects } = input;
  const { principal } = apiRequest;
  await requireModel(model, input);
  const tools = await readHostedTools(request, principal);
  const toolModels = tools?.models.map(({ name }) => name) ?? [];
  for (const name of toolModels) storedObjects.models.requireOpen(name, principal.userId, [upstream]);
  for (const name of [model, ...toolModels]) {
    if (upstreamModelName(upstream, name) === name) continue;
    refuse('invalid_value', param, `${name} is a name that only the gateway knows, and a batch goes up as it is`);
  }
  return tools;
}

/**
 * The fields of a request for such work. Others could name a model, a checkpoint or requests that nobody has read.
 * @param longest bytes
 * @throws GatewayError `unknown_parameter`, `request_too_large`
 */
export function readFields(rawBody: Buffer, known: ReadonlySet<string>, longest: number): Fields {
  if (rawBody.length > longest) {
    throw new GatewayError('request_too_large', `The request is larger than ${longest} bytes`);
  }
  const fields = JSON.parse(rawBody.toString()) as Fields;
  const unknown = Object.keys(fields).find((name) => !known.has(name));
  if (unknown !== undefined) refuse('unknown_parameter', unknown, `is not one of ${[...known].join(', ')}`);
  return fields;
}

/** The largest description of such work. Bytes: that of a failed batch has an error for many of its requests. */
const largestObject = 16 * 1024 * 1024;

/** Reads an object in JSON. @throws GatewayError `upstream_invalid_response` */
export async function readObject(body: ResponseBody, onProgress: () => void): Promise<Fields> {
  const { bytes, whole } = await collect(body, largestObject, onProgress);
  const object = whole ? parsed(bytes.toString()) : undefined;
  if (object) return object;
  body.destroy();
  throw failure('upstream_invalid_response');
}
