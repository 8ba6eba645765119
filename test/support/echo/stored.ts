import { randomUUID } from 'node:crypto';
import { type ChatAnswer, type ChatRequest, checkModel, countTokens, DemoError } from '../../../src/cli/demo/chat.ts';
import {
  answerResponse,
  type Item,
  type ResponseObject,
  type ResponseRequest,
  toItems,
} from '../../../src/cli/demo/responses.ts';

/** The most that is kept of one kind. Above it, the oldest go. */
const maxObjects = 1_000;
/** Characters of their JSON. */
const maxSize = 16 * 1024 * 1024;

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
  const id = `conv_${randomUUID().replaceAll('-', '')}`;
  const conversation = { id, object: 'conversation', created_at, metadata: metadata ?? {} };
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

const conversationIdOf = ({ conversation }: ResponseRequest) =>
  typeof conversation === 'string' ? conversation : conversation?.id;

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
export function createResponse(asked: ResponseRequest, store: DemoStore): ResponseObject {
  const before = turnsBefore(asked, store);
  // each item gets its id once
  const request = { ...asked, input: toItems(asked.input ?? []) };
  const response = answerResponse(request, before);
  const conversationId = conversationIdOf(request);
  if (conversationId !== undefined) addItems(store, conversationId, [...request.input, ...response.output]);
  if (request.store !== false) store.responses.set(response.id, { response, input: [...before, ...request.input] });
  return response;
}
