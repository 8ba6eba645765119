import { GatewayError } from '../errors.ts';
import { eachText, JsonMembers, mayHaveKey } from '../http/json/search.ts';
import type { ApiRequest, ByteRange } from '../http/operation.ts';
import { type PricedTool, toolCounts } from '../options/accounts.ts';
import type { RequestedTools, ToolCounts } from '../options/options.ts';
import type { Principal } from '../options/principal.ts';
import { requireAllowedModel } from './admission.ts';
import { createBodyReader, type Fields, isObject } from './answer-body.ts';
import { ItemEvents } from './item-events.ts';
import { checkModelName, type Edit, longestValue } from './model-body.ts';
import { type Upstream, upstreamModelName } from './upstream.ts';

/** A model that a tool names, and where. */
interface NamedModel extends ByteRange {
  readonly name: string;
}

/** What the tools of a request say. */
export interface HostedTools {
  /** The models that they name. */
  readonly models: readonly NamedModel[];
  /** What providers may charge for them; `undefined` where that is nothing. */
  readonly requested: RequestedTools | undefined;
}

/** What makes images where the tool names no model (OpenAI's reference of `tools` in responses). */
export const imageModel = 'gpt-image-1';
/** Tools have dates in their types, too: `web_search_preview_2025_03_11`. */
const pricedType = /^(web_search|file_search|code_interpreter|image_generation)(?:_|$)/;
/** The most texts that are read of the tools of a request: types and models. */
const mostTexts = 10_000;
/** The most calls of tools that a request can allow: a bound that keeps sums exact. */
const mostCalls = 1_000_000;

type Body = Pick<ApiRequest, 'rawBody' | 'fields' | 'body'>;

/** A text in tools. */
interface ToolText extends ByteRange {
  readonly key: string;
  readonly text: string;
  /** Where the object or list begins that has it. */
  readonly parent: number;
}

const quote = 0x22;
const tool = Buffer.from('tool');
/** How the key `tools` may end, with its quote: keys are compared by `foldCase`, which takes a long s for an s. */
const endsOfTools = ['s"', 'S"', 'ſ"'].map((end) => Buffer.from(end));

/** Whether the key `tools` may stand in the bytes, in any case. 200 KB take some 110 µs. */
function mayHaveTools(bytes: Buffer): boolean {
  return mayHaveKey(bytes, endsOfTools, (_, at) => {
    const start = at - tool.length;
    return bytes[start - 1] === quote && tool.every((letter, i) => ((bytes[start + i] as number) | 0x20) === letter);
  });
}

/** The types and models in the tools of a body; what stands in a JSON schema counts for nothing. @throws GatewayError `request_too_large` */
async function textsInTools({ rawBody, fields }: Pick<Body, 'rawBody' | 'fields'>): Promise<ToolText[]> {
  const span = fields.get('tools');
  const { start: from, end: to } = span ?? { start: 0, end: 0 };
  const isElsewhere = [rawBody.subarray(0, from), rawBody.subarray(to)].some(mayHaveTools);
  if (!span && !isElsewhere) return [];
  const offset = isElsewhere ? 0 : from;
  const texts: ToolText[] = [];
  const searched = { keys: ['type', 'model'], longest: longestValue };
  await eachText(isElsewhere ? rawBody : rawBody.subarray(from, to), searched, ({ key, text, start, end, open }) => {
    const isInTools = !isElsewhere || open.slice(0, -1).some(({ folded }) => folded === 'tools');
    if (!isInTools) return true;
    texts.push({ key, text, start: offset + start, end: offset + end, parent: open.at(-1)?.start ?? 0 });
    return texts.length <= mostTexts;
  });
  if (texts.length > mostTexts) throw new GatewayError('request_too_large', 'The tools of the body say too much');
  return texts;
}

/**
 * The models that the tools of a request name, wherever the request has tools, and what the tools may do; `undefined` where it brings none. A model that only a default
 * names is checked as one that the request names.
 * @throws GatewayError `invalid_value`, `model_not_allowed`, as for the model of a request; `request_too_large`
 */
export async function readHostedTools(request: Body, principal: Principal): Promise<HostedTools | undefined> {
  const texts = await textsInTools(request);
  if (texts.length === 0) return undefined;
  const named = texts.filter(({ key }) => key === 'model');
  const naming = new Set(named.map(({ parent }) => parent));
  const types = texts.flatMap(({ key, text, parent }) => {
    const type = key === 'type' ? pricedType.exec(text)?.[1] : undefined;
    return type ? [{ type: type as PricedTool | 'image_generation', parent }] : [];
  });
  const makers = types.filter(({ type }) => type === 'image_generation');
  const usesDefault = makers.some(({ parent }) => !naming.has(parent));
  const models = named.map(({ text: name, start, end }) => ({ name, start, end }));
  const names = [...new Set([...models.map(({ name }) => name), ...(usesDefault ? [imageModel] : [])])];
  for (const name of names) {
    checkModelName(name);
    requireAllowedModel(principal, name);
  }
  const inMakers = named.filter(({ parent }) => makers.some((maker) => maker.parent === parent));
  const imageModels = [...new Set([...inMakers.map(({ text }) => text), ...(usesDefault ? [imageModel] : [])])];
  return { models, requested: requestedTools(new Set(types.map(({ type }) => type)), imageModels, request.body) };
}

function requestedTools(
  types: ReadonlySet<PricedTool | 'image_generation'>,
  imageModels: readonly string[],
  body: unknown,
): RequestedTools | undefined {
  if (types.size === 0) return undefined;
  const { max_tool_calls: limit = usesOf(body) } = (isObject(body) ? body : {}) as {
    readonly max_tool_calls?: unknown;
  };
  const calls = Number.isSafeInteger(limit) ? Math.min(mostCalls, Math.max(0, limit as number)) : 1;
  const counts = [...types].map((type) => [type === 'image_generation' ? 'images' : toolCounts[type], calls]);
  return { ...Object.fromEntries(counts), ...(imageModels.length > 0 && { imageModels }) };
}

/** How often the tools of a request may be used by what each says of itself, as those of Anthropic's API do; `undefined` where none does. */
function usesOf(body: unknown): number | undefined {
  const tools: readonly unknown[] = isObject(body) && Array.isArray(body.tools) ? body.tools : [];
  const uses = tools.flatMap((tool) => (isObject(tool) && Number.isSafeInteger(tool.max_uses) ? [tool.max_uses] : []));
  return uses.length > 0 ? uses.reduce((sum: number, most) => sum + Math.max(0, most as number), 0) : undefined;
}

/** The edits that give the models of tools an upstream's names. */
export function toolEdits({ models }: HostedTools, upstream: Upstream): Edit[] {
  return models.flatMap(({ name, start, end }) => {
    const upstreamName = upstreamModelName(upstream, name);
    return upstreamName === name ? [] : [{ start, end, text: JSON.stringify(upstreamName) }];
  });
}

/** What hosted tools have done for a call. */
export interface ToolUse extends ToolCounts {
  readonly images: number;
}

/** Stands in the answer of a chat that has found something in the web. Inside a text its quotes would be escaped. */
export const webCitation = '"url_citation"';

/** Of a call that no tool has done anything for. */
export const noToolUse: ToolUse = Object.freeze({ images: 0 });

/**
 * What an answer shows that hosted tools have done for it: the items of a response, and of a chat what its usage counts, or that it cites what was found in the web.
 */
export function toolUseOf({ output, choices }: Fields, usage: ToolCounts | undefined): ToolUse {
  const calls = new ToolCalls();
  calls.addOutput(output);
  if (!Array.isArray(choices)) return calls.use;
  const webSearchCalls = usage?.webSearchCalls ?? (JSON.stringify(choices).includes(webCitation) ? 1 : 0);
  return webSearchCalls > 0 ? { images: 0, webSearchCalls } : noToolUse;
}

/** One item of an answer, as far as it is read. */
interface ToolCall {
  readonly type: string;
  readonly status: unknown;
  /** What a search of the web does. */
  readonly action: unknown;
}

const countedCalls = new Map<string, 'images' | (typeof toolCounts)[PricedTool]>([
  ['image_generation_call', 'images'],
  ...Object.entries(toolCounts).map(([tool, count]) => [`${tool}_call`, count] as const),
]);

/** These are searches of the web by their type alone; providers charge for searches. */
const freeActions: ReadonlySet<unknown> = new Set(['open_page', 'find_in_page', 'find']);

/** Counts the calls of hosted tools in the items of an answer, each once, however often it is shown. */
export class ToolCalls {
  /** By id. */
  readonly #calls = new Map<unknown, ToolCall>();
  readonly #reader = createBodyReader(
    () => this.#listReader(),
    () => this.#eventReader(),
  );

  /** Reads an answer in JSON, or a stream of events, chunk by chunk. */
  read(chunk: Buffer): void {
    this.#reader.read(chunk);
  }

  /** Takes what an event shows: an item, or the response with all of them. */
  addEvent(event: Fields): void {
    const { item, output_index: index, response } = event;
    if (isObject(item)) this.#add(item, index);
    if (isObject(response)) this.addOutput(response.output);
  }

  /** Takes the items of an answer. */
  addOutput(output: unknown): void {
    if (!Array.isArray(output)) return;
    for (const [index, item] of output.entries()) if (isObject(item)) this.#add(item, index);
  }

  /** By now. */
  get use(): ToolUse {
    if (this.#calls.size === 0) return noToolUse;
    const use = { images: 0 } as Record<'images' | keyof ToolCounts, number>;
    for (const { type, status, action } of this.#calls.values()) {
      const count = countedCalls.get(type);
      const isFree = status === 'failed' || (isObject(action) && freeActions.has(action.type));
      if (count && !isFree) use[count] = (use[count] ?? 0) + 1;
    }
    return use;
  }

  #add({ id, type, status, action }: Fields, index: unknown): void {
    if (typeof type !== 'string' || !countedCalls.has(type)) return;
    this.#calls.set(typeof id === 'string' ? id : index, { type, status, action });
  }

  #listReader() {
    let item: Record<string, unknown> = {};
    let index = 0;
    return new JsonMembers({
      list: 'output',
      names: ['id', 'type', 'status', 'action'],
      keepLimit: longestValue,
      onMember: (name, value) => {
        item[name] = value;
      },
      onItemEnd: () => {
        this.#add(item, index);
        item = {};
        index += 1;
      },
    });
  }

  #eventReader() {
    const events = new ItemEvents();
    return {
      read: (chunk: Buffer) => {
        for (const event of events.read(chunk)) this.addEvent(event);
      },
    };
  }
}
