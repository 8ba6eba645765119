import { GatewayError } from '../errors.ts';
import { storeInFreeSlot } from '../mongo/writes/free-slot.ts';
import { type KeyModel, releaseExpired, takenSlots } from './model.ts';

/**
 * Has a key stored under a slot that no key of its account has that still works. A key that ends gives its slot back.
 * @throws GatewayError `api_key_limit_reached` where none is free
 */
export async function inFreeSlot(
  keys: KeyModel,
  maxKeys: number,
  userId: string,
  store: (slot: number) => Promise<void>,
): Promise<void> {
  await storeInFreeSlot({
    count: maxKeys,
    async taken() {
      const slots = await takenSlots(keys, userId);
      if (slots.size < maxKeys) return slots;
      await releaseExpired(keys, userId);
      return takenSlots(keys, userId);
    },
    store,
    full: (count) => {
      const message = `API keys in this account: ${count}, which is the most it may have; revoke one first`;
      return new GatewayError('api_key_limit_reached', message);
    },
  });
}
