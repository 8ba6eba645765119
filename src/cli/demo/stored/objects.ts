import { randomUUID } from 'node:crypto';
import { DemoError } from '../model.ts';

/** The most that is kept of one kind. Above it, the oldest go. */
const maxObjects = 1_000;
/** Characters of their JSON. */
const maxSize = 16 * 1024 * 1024;

/** An id as OpenAI makes them: `resp_…`. */
export function newId(prefix: string): string {
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

export interface Message extends Item {
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
