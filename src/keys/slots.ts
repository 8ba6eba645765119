import { randomInt } from 'node:crypto';
import { GatewayError } from '../errors.ts';
import { type KeyModel, releaseExpired, takenSlots } from './model.ts';

function isSlotTaken(error: unknown): boolean {
  const { code, keyPattern } = error as { code?: unknown; keyPattern?: Readonly<Record<string, unknown>> };
  return code === 11_000 && keyPattern?.slot !== undefined;
}

/**
 * Has a key stored under a slot that no key of its account has that still works; when somebody else is quicker, under
 * another. The unique index on account and slot is what holds the limit. A key that ends gives its slot back.
 * @throws GatewayError `api_key_limit_reached` where none is free
 */
export async function inFreeSlot(
  keys: KeyModel,
  maxKeys: number,
  userId: string,
  store: (slot: number) => Promise<void>,
): Promise<void> {
  async function findSlot(): Promise<number | undefined> {
    const taken = new Set(await takenSlots(keys, userId));
    const free = Array.from({ length: maxKeys }, (_, slot) => slot).filter((slot) => !taken.has(slot));
    // any of them, so that callers at the same moment seldom want the same one
    return free.length > 0 ? free[randomInt(free.length)] : undefined;
  }

  for (;;) {
    let slot = await findSlot();
    if (slot === undefined) {
      await releaseExpired(keys, userId);
      slot = await findSlot();
    }
    if (slot === undefined) {
      const message = `API keys in this account: ${maxKeys}, which is the most it may have; revoke one first`;
      throw new GatewayError('api_key_limit_reached', message);
    }
    try {
      await store(slot);
      return;
    } catch (error) {
      if (!isSlotTaken(error)) throw error;
    }
  }
}
