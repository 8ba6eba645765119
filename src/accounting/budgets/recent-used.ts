import { withTimeout } from '../../mongo/with-timeout.ts';
import type { Logger } from '../../options/options.ts';
import type { UsedAmounts } from './used-amounts.ts';

/** How long what was read is used. Milliseconds. */
const lifetime = 1_000;
/** How long a call waits for a read. Milliseconds. */
const longestRead = 1_000;
/** The most subjects that are remembered. */
const capacity = 10_000;

interface Entry {
  readonly used: UsedAmounts;
  /** When the read of it began, by `performance.now()`. */
  readonly readAt: number;
}

/** What accounts or keys have used, at most a second ago: a busy one costs one read in a second. */
export interface RecentUsed {
  /** What is known at once, if it is not too old. */
  peek(id: string): UsedAmounts | undefined;
  /** Reads it, once for all who ask at the same time. If the database does not answer: what was known last, if anything. */
  read(id: string): Promise<UsedAmounts | undefined>;
}

export function createRecentUsed(read: (id: string) => Promise<UsedAmounts>, logger: Logger): RecentUsed {
  const known = new Map<string, Entry>();
  const reading = new Map<string, Promise<UsedAmounts | undefined>>();
  let failing = false;

  async function readNow(id: string): Promise<UsedAmounts | undefined> {
    const readAt = performance.now();
    try {
      const used = await withTimeout(read(id), longestRead);
      failing = false;
      known.delete(id);
      known.set(id, { used, readAt });
      for (const oldest of known.keys()) {
        if (known.size <= capacity) break;
        known.delete(oldest);
      }
      return used;
    } catch (error) {
      if (!failing) logger.warn('what was used of budgets could not be read', { reason: String(error) });
      failing = true;
      return known.get(id)?.used;
    } finally {
      reading.delete(id);
    }
  }

  return {
    peek(id) {
      const entry = known.get(id);
      return entry && performance.now() - entry.readAt < lifetime ? entry.used : undefined;
    },
    read(id) {
      const present = reading.get(id) ?? readNow(id);
      reading.set(id, present);
      return present;
    },
  };
}
