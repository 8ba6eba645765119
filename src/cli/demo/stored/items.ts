import { DemoError } from '../model.ts';
import { type Item, newId } from './objects.ts';

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
