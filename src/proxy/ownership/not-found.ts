import { GatewayError } from '../../errors.ts';
import type { StoredKind } from './stored-objects.ts';

const words = { response: 'response', conversation: 'conversation', chat_completion: 'chat completion' } as const;

/** The same for what does not exist as for what another account has. */
export function storedObjectNotFound(object: {
  readonly kind: StoredKind;
  readonly id: string;
  /** The parameter that names it. */
  readonly param: string;
}): GatewayError {
  const { kind, id, param } = object;
  return new GatewayError(`${kind}_not_found`, `No ${words[kind]} ${id} in this account`, { param });
}
