import { randomInt } from 'node:crypto';
import { isDuplicateKey } from './writes.ts';

/**
 * A random free slot of `0 … count - 1`, so that simultaneous callers seldom want the same one; `null` if none is free.
 */
function freeSlot(taken: ReadonlySet<number>, count: number): number | null {
  if (taken.size >= count) return null;
  let slot = randomInt(count);
  while (taken.has(slot)) slot = (slot + 1) % count;
  return slot;
}

/** A limited number of things of one kind in an account. */
export interface LimitedSlots {
  readonly count: number;
  taken(): Promise<ReadonlySet<number>>;
  /** Rejects, by a unique index over `slot`, if another caller was quicker. */
  store(slot: number): Promise<unknown>;
  /** The error if no slot is free. */
  full(): Error;
}

/**
 * Stores something in a free slot, or in another one if another caller is quicker. The unique index enforces the limit, however
 * many callers there are at once.
 */
export async function storeInFreeSlot({ count, taken, store, full }: LimitedSlots): Promise<void> {
  for (;;) {
    const present = await taken();
    const slot = freeSlot(present, count);
    if (slot === null) throw full();
    try {
      await store(slot);
      return;
    } catch (error) {
      if (!isDuplicateKey(error, 'slot')) throw error;
    }
  }
}
