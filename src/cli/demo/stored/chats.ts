import type { ChatAnswer, ChatRequest } from '../chat.ts';
import type { DemoStore } from './objects.ts';

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
