import { randomInt } from 'node:crypto';
import { isDuplicateKey } from './duplicate-key.ts';

/**
 * A free slot out of `0 … count - 1`, any of them, so that callers at the same moment seldom want the same one;
 * `null` where as many are taken as there may be.
 */
export function freeSlot(taken: ReadonlySet<number>, count: number): number | null {
  if (taken.size >= count) return null;
  let slot = randomInt(count);
  while (taken.has(slot)) slot = (slot + 1) % count;
  return slot;
}

/** What an account may have so many of. */
export interface Slots {
  readonly count: number;
  taken(): Promise<ReadonlySet<number>>;
  /** Rejects by a unique index over `slot` where somebody else was quicker. */
  store(slot: number): Promise<unknown>;
  /** The error where so many are taken. */
  full(taken: number): Error;
}

/**
 * Stores something under a free slot; when somebody else is quicker, under another. The unique index is what holds the
 * limit, whatever happens at the same moment.
 */
export async function storeInFreeSlot({ count, taken, store, full }: Slots): Promise<void> {
  for (;;) {
    const present = await taken();
    const slot = freeSlot(present, count);
    if (slot === null) throw full(present.size);
    try {
      await store(slot);
      return;
    } catch (error) {
      if (!isDuplicateKey(error, 'slot')) throw error;
    }
  }
}
