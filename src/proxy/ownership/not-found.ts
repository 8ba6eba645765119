import { GatewayError } from '../../errors.ts';
import type { StoredKind } from './stored-objects.ts';

const words = {
  response: 'response',
  conversation: 'conversation',
  chat_completion: 'chat completion',
  item: 'item',
} as const;

/** What to do about an item that is not known. */
const itemHint =
  ': send the item itself in place of its id, or first retrieve the response, or list the items of the conversation, that it is in';

/** The same for what does not exist as for what another account has. */
export function storedObjectNotFound(object: {
  readonly kind: StoredKind;
  readonly id: string;
  /** The parameter that names it. */
  readonly param: string;
}): GatewayError {
  const { kind, id, param } = object;
  const hint = kind === 'item' ? itemHint : '';
  return new GatewayError(`${kind}_not_found`, `No ${words[kind]} ${id} in this account${hint}`, { param });
}
