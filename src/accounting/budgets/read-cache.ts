import { withTimeout } from '../../mongo/periodic.ts';
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

/** Keeps what was read for a second: so what is needed all the time costs one read in a second. */
export interface ReadCache<T> {
  /** What was read less than a second ago. */
  fresh(key: string): T | undefined;
  /** What was read last, however old. */
  stale(key: string): T | undefined;
  /** Reads it, once for all who need it at the same time. If the database does not answer: what was read last, if anything. */
  read(key: string, read: () => Promise<T>): Promise<T | undefined>;
}

export function createReadCache<T>(logger: Logger): ReadCache<T> {
  const entries = new Map<string, Entry<T>>();
  const reading = new Map<string, Promise<T | undefined>>();
  let failing = false;

  async function readNow(key: string, read: () => Promise<T>): Promise<T | undefined> {
    const readAt = performance.now();
    try {
      const value = await withTimeout(read(), longestRead, false);
      failing = false;
      entries.delete(key);
      entries.set(key, { value, readAt });
      for (const oldest of entries.keys()) {
        if (entries.size <= capacity) break;
        entries.delete(oldest);
      }
      return value;
    } catch (error) {
      if (!failing) logger.warn('budgets could not be read', { reason: String(error) });
      failing = true;
      return entries.get(key)?.value;
    } finally {
      reading.delete(key);
    }
  }

  return {
    fresh(key) {
      const entry = entries.get(key);
      return entry && performance.now() - entry.readAt < lifetime ? entry.value : undefined;
    },
    stale: (key) => entries.get(key)?.value,
    read(key, read) {
      const present = reading.get(key) ?? readNow(key, read);
      reading.set(key, present);
      return present;
    },
  };
}
