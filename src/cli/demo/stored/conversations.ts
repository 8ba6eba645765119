import { DemoError } from '../model.ts';
import { toItems } from './items.ts';
import { type DemoStore, type Item, newId } from './objects.ts';

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
