import type { ClientSession } from 'mongoose';
import type { EventInput, PublishOptions } from '../events/service.ts';
import type { KeyDocument } from './model.ts';

/** Publishes that a key was created or revoked, once for each key; in the transaction of the session. */
export type PublishKeyEvent = (
  type: 'api_key.created' | 'api_key.revoked',
  key: KeyDocument,
  session: ClientSession | undefined,
) => Promise<void>;

export function createPublishKeyEvent(
  publish: (event: EventInput, options: PublishOptions) => Promise<unknown>,
): PublishKeyEvent {
  return async function publishKeyEvent(type, { _id, name, userId }, session) {
    const event = { type, userId, data: { api_key_id: _id, name, user_id: userId } };
    await publish(event, { idempotencyKey: `${type}:${_id}`, ...(session && { session }) });
  };
}
