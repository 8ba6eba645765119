import { randomUUID } from 'node:crypto';
import {
  type ChatAnswer,
  type ChatRequest,
  checkModel,
  countTokens,
  DemoError,
  demoModel,
  echoOf,
  lastUserText,
  wordsOf,
} from '../../../src/cli/demo/chat.ts';

/** The most that is kept of one kind. Above it, the oldest go. */
const maxObjects = 1_000;
/** Characters of their JSON. */
const maxSize = 16 * 1024 * 1024;

/** An id as OpenAI makes them: `resp_…`. */
function newId(prefix: string): string {
  return `${prefix}_${randomUUID().replaceAll('-', '')}`;
}

/** Objects of one kind, in memory. */
class StoredObjects<T> {
  readonly #name: string;
  readonly #texts = new Map<string, string>();
  #size = 0;

  /** @param name what one of them is called: `response` */
  constructor(name: string) {
    this.#name = name;
  }

  set(id: string, value: T): void {
    this.#remove(id);
    const text = JSON.stringify(value);
    this.#texts.set(id, text);
    this.#size += text.length;
    for (const oldest of this.#texts.keys()) {
      if (this.#texts.size <= maxObjects && this.#size <= maxSize) return;
      this.#remove(oldest);
    }
  }

  /** @throws DemoError 404 where there is none */
  get(id: string): T {
    const text = this.#texts.get(id);
    if (text === undefined) throw new DemoError('not_found', `There is no ${this.#name} '${id}' here`);
    return JSON.parse(text);
  }

  /** @throws DemoError 404 where there is none */
  delete(id: string): void {
    this.get(id);
    this.#remove(id);
  }

  /** All of them, oldest first. */
  all(): T[] {
    return [...this.#texts.values()].map((text) => JSON.parse(text));
  }

  #remove(id: string): void {
    this.#size -= this.#texts.get(id)?.length ?? 0;
    this.#texts.delete(id);
  }
}

/** An input or output item of the Responses API. */
export interface Item {
  readonly id: string;
  readonly type: string;
}

interface Message extends Item {
  readonly content: readonly { readonly text: string }[];
}

/** The parts of an object of the Responses API that the demo reads again. */
export interface ResponseObject {
  readonly id: string;
  readonly status: string;
  readonly output: readonly Message[];
}

interface StoredResponse {
  readonly response: ResponseObject;
  /** What it was made from, with the turns before it. */
  readonly input: readonly Item[];
}

interface StoredConversation {
  readonly conversation: { readonly id: string; readonly metadata: unknown };
  readonly items: readonly Item[];
}

interface StoredChat {
  readonly completion: { readonly id: string };
  readonly messages: readonly { readonly id: string }[];
}

/** What the demo upstream keeps until it stops. */
export interface DemoStore {
  readonly responses: StoredObjects<StoredResponse>;
  readonly conversations: StoredObjects<StoredConversation>;
  readonly chats: StoredObjects<StoredChat>;
}

export function createDemoStore(): DemoStore {
  return {
    responses: new StoredObjects('response'),
    conversations: new StoredObjects('conversation'),
    chats: new StoredObjects('chat completion'),
  };
}

/** One page of a list by the query of its request: `order`, `after`, `limit`. */
export function pageOf<T extends { readonly id: string }>(
  oldestFirst: readonly T[],
  query: URLSearchParams,
  orderByDefault: 'asc' | 'desc',
): object {
  const order = query.get('order') ?? orderByDefault;
  const all = order === 'desc' ? [...oldestFirst].reverse() : oldestFirst;
  const from = all.findIndex(({ id }) => id === query.get('after')) + 1;
  const limit = Math.min(Number(query.get('limit')) || 20, 100);
  const data = all.slice(from, from + limit);
  const ids = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
  return { object: 'list', data, ...ids, has_more: from + limit < all.length };
}

interface GivenItem {
  readonly id?: string | null;
  readonly type?: string;
  readonly role?: unknown;
  readonly content?: unknown;
}

function toItem(given: GivenItem | null): Item {
  if (typeof given !== 'object' || given === null) {
    throw new DemoError('invalid_value', "'input' must be a text or a list of items", 'input');
  }
  const { type = 'message', role, content } = given;
  if (type !== 'message') return { ...given, id: given.id ?? newId('item'), type };
  const part = { type: role === 'assistant' ? 'output_text' : 'input_text', text: content };
  const parts = typeof content === 'string' ? [part] : content;
  return { status: 'completed', ...given, id: given.id ?? newId('msg'), type, content: parts } as Item;
}

/**
 * The items of an input: a text, or a list of items.
 * @throws DemoError for anything else
 */
export function toItems(input: unknown): Item[] {
  if (typeof input === 'string') return [toItem({ role: 'user', content: input })];
  return Array.isArray(input) ? input.map(toItem) : [toItem(null)];
}

/** Keeps a chat completion, if its request asks for that. */
export function storeChat(request: ChatRequest & { store?: unknown }, { completion }: ChatAnswer, store: DemoStore) {
  if (request.store !== true) return;
  const { id } = completion;
  const messages = (request.messages as object[]).map((message, i) => ({ ...message, id: `${id}-${i}` }));
  store.chats.set(id, { completion, messages });
}

/** Changes the metadata of a chat completion. @throws DemoError 404 */
export function updateChat(id: string, metadata: unknown, { chats }: DemoStore): object {
  const { completion, messages } = chats.get(id);
  const updated = { ...completion, metadata };
  chats.set(id, { completion: updated, messages });
  return updated;
}

/** Makes a conversation. @throws DemoError for items that are none */
export function createConversation(body: { items?: unknown; metadata?: unknown }, store: DemoStore): object {
  const created_at = Math.floor(Date.now() / 1000);
  const { items, metadata } = body;
  const conversation = { id: newId('conv'), object: 'conversation', created_at, metadata: metadata ?? {} };
  store.conversations.set(conversation.id, { conversation, items: toItems(items ?? []) });
  return conversation;
}

/** Changes the metadata of a conversation. @throws DemoError 404 */
export function updateConversation(id: string, metadata: unknown, { conversations }: DemoStore): object {
  const { conversation, items } = conversations.get(id);
  const updated = { ...conversation, metadata: metadata ?? {} };
  conversations.set(id, { conversation: updated, items });
  return updated;
}

/** Adds items to the end of a conversation. @throws DemoError 404 */
export function addItems({ conversations }: DemoStore, id: string, added: readonly Item[]): void {
  const { conversation, items } = conversations.get(id);
  conversations.set(id, { conversation, items: [...items, ...added] });
}

/** @throws DemoError 404 */
export function itemOf({ conversations }: DemoStore, id: string, itemId: string): Item {
  const item = conversations.get(id).items.find((candidate) => candidate.id === itemId);
  if (item) return item;
  throw new DemoError('not_found', `There is no item '${itemId}' in the conversation '${id}'`);
}

/** Takes an item out of a conversation. @throws DemoError 404 */
export function removeItem(store: DemoStore, id: string, itemId: string): object {
  const removed = itemOf(store, id, itemId);
  const { conversation, items } = store.conversations.get(id);
  store.conversations.set(id, { conversation, items: items.filter((item) => item.id !== removed.id) });
  return conversation;
}

export interface ResponseRequest {
  readonly model?: unknown;
  readonly input?: unknown;
  readonly previous_response_id?: string | null;
  readonly conversation?: string | { readonly id: string } | null;
  readonly instructions?: unknown;
  readonly metadata?: unknown;
  readonly max_output_tokens?: number | null;
  readonly background?: boolean | null;
  readonly store?: boolean | null;
}

/** What it said, as an item: an echo with as many words as it may have. */
function toMessage(said: string, limit: number) {
  const words = echoOf(said);
  const text = words.slice(0, limit).join('');
  const status = words.length > limit ? 'incomplete' : 'completed';
  const content = [{ type: 'output_text', text, annotations: [], logprobs: [] }];
  return { id: newId('msg'), type: 'message', status, role: 'assistant', content };
}

function conversationIdOf({ conversation }: ResponseRequest): string | undefined {
  return typeof conversation === 'string' ? conversation : conversation?.id;
}

/** The turns that a request continues. @throws DemoError 404 for a response or conversation that does not exist */
function turnsBefore(request: ResponseRequest, { responses, conversations }: DemoStore): readonly Item[] {
  const conversationId = conversationIdOf(request);
  if (conversationId !== undefined) return conversations.get(conversationId).items;
  if (!request.previous_response_id) return [];
  const { input, response } = responses.get(request.previous_response_id);
  return [...input, ...response.output];
}

/** @throws DemoError as {@link createResponse} */
export function countInput(request: ResponseRequest, store: DemoStore): object {
  checkModel(request.model);
  const input = [...turnsBefore(request, store), ...toItems(request.input ?? [])];
  return { object: 'response.input_tokens', input_tokens: countTokens(input) };
}

/**
 * Makes a response, and keeps it unless `store` is false.
 * @throws DemoError for another model, an invalid input, and a response or conversation to continue that does not exist
 */
export function createResponse(request: ResponseRequest, store: DemoStore): ResponseObject {
  checkModel(request.model);
  const newItems = toItems(request.input ?? []);
  const input = [...turnsBefore(request, store), ...newItems];
  const message = toMessage(lastUserText(newItems), request.max_output_tokens ?? Number.POSITIVE_INFINITY);
  const tokens = [countTokens(input), countTokens([message])] as const;
  const isCut = message.status === 'incomplete';
  const conversationId = conversationIdOf(request);
  const now = Math.floor(Date.now() / 1000);
  const response = {
    id: newId('resp'),
    object: 'response',
    created_at: now,
    status: message.status,
    background: request.background ?? false,
    completed_at: isCut ? null : now,
    error: null,
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    metadata: request.metadata ?? {},
    model: demoModel.id,
    output: [message],
    parallel_tool_calls: true,
    previous_response_id: request.previous_response_id ?? null,
    conversation: conversationId === undefined ? null : { id: conversationId },
    store: request.store ?? true,
    temperature: 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    truncation: 'disabled',
    usage: {
      input_tokens: tokens[0],
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: tokens[1],
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: tokens[0] + tokens[1],
    },
  };
  if (conversationId !== undefined) addItems(store, conversationId, [...newItems, message]);
  if (request.store !== false) store.responses.set(response.id, { response, input });
  return response;
}

/** A response as it is before there is anything in it. */
export function unfinished(response: ResponseObject, status: 'queued' | 'in_progress'): ResponseObject {
  const nothing = { completed_at: null, incomplete_details: null, output: [], usage: null };
  return { ...response, status, ...nothing };
}

/** The events of a stream of a response, a word each. */
export function responseEvents(response: ResponseObject): object[] {
  const item = response.output[0] as Message;
  const [part] = item.content as [{ text: string }];
  const place = { output_index: 0, content_index: 0, item_id: item.id };
  const started = unfinished(response, 'in_progress');
  const events = [
    { type: 'response.created', response: started },
    { type: 'response.in_progress', response: started },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress', content: [] } },
    { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
    ...wordsOf(part.text).map((delta) => ({ type: 'response.output_text.delta', ...place, delta, logprobs: [] })),
    { type: 'response.output_text.done', ...place, text: part.text, logprobs: [] },
    { type: 'response.content_part.done', ...place, part },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: `response.${response.status}`, response },
  ];
  return events.map((event, sequence_number) => ({ ...event, sequence_number }));
}
