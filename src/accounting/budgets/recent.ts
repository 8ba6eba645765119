import { withTimeout } from '../../mongo/with-timeout.ts';
import type { Logger } from '../../options/options.ts';

/** How long what was read is used. Milliseconds. */
const lifetime = 1_000;
/** How long a call waits for a read. Milliseconds. */
const longestRead = 1_000;
/** The most that is remembered. */
const capacity = 10_000;

interface Entry<T> {
  readonly value: T;
  /** When the read of it began, by `performance.now()`. */
  readonly readAt: number;
}

/** What was read at most a second ago: what is asked for all the time costs one read in a second. */
export interface Recent<T> {
  /** What is known at once, if it is not too old. */
  peek(id: string): T | undefined;
  /** What was read last, however old. */
  last(id: string): T | undefined;
  /** Reads it, once for all who ask at the same time. If the database does not answer: what was read last, if anything. */
  read(id: string): Promise<T | undefined>;
}

export function createRecent<T>(read: (id: string) => Promise<T>, logger: Logger): Recent<T> {
  const known = new Map<string, Entry<T>>();
  const reading = new Map<string, Promise<T | undefined>>();
  let failing = false;

  async function readNow(id: string): Promise<T | undefined> {
    const readAt = performance.now();
    try {
      const value = await withTimeout(read(id), longestRead, false);
      failing = false;
      known.delete(id);
      known.set(id, { value, readAt });
      for (const oldest of known.keys()) {
        if (known.size <= capacity) break;
        known.delete(oldest);
      }
      return value;
    } catch (error) {
      if (!failing) logger.warn('budgets could not be read', { reason: String(error) });
      failing = true;
      return known.get(id)?.value;
    } finally {
      reading.delete(id);
    }
  }

  return {
    peek(id) {
      const entry = known.get(id);
      return entry && performance.now() - entry.readAt < lifetime ? entry.value : undefined;
    },
    last: (id) => known.get(id)?.value,
    read(id) {
      const present = reading.get(id) ?? readNow(id);
      reading.set(id, present);
      return present;
    },
  };
}
