import { GatewayError } from '../../errors.ts';
import type { StoredKind } from './stored-objects.ts';

const words = {
  response: 'response',
  conversation: 'conversation',
  chat_completion: 'chat completion',
  item: 'item',
} as const;

const givenId = 'use an id that this account was given';

/** What to do about an object that is not known. */
const remedies = {
  response: givenId,
  conversation: givenId,
  chat_completion: 'GET /v1/chat/completions lists those that are',
  item: 'send the item itself in place of its id, or first retrieve the response, or list the items of the conversation, that it is in',
} as const;

/** The same for what does not exist as for what another account has. */
export function storedObjectNotFound(object: {
  readonly kind: StoredKind;
  readonly id: string;
  /** The parameter that names it. */
  readonly param: string;
}): GatewayError {
  const { kind, id, param } = object;
  const message = `No ${words[kind]} ${id} is in this account; ${remedies[kind]}`;
  return new GatewayError(`${kind}_not_found`, message, { param });
}
