import { setTimeout as sleep } from 'node:timers/promises';
import { refuse } from '../errors.ts';

/** The longest delay. Milliseconds. */
const longestDelay = 3_600_000;

function requireDelay(delay: number): void {
  if (Number.isInteger(delay) && delay >= 0 && delay <= longestDelay) return;
  refuse('invalid_value', 'delay', `must be a whole number from 0 to ${longestDelay}`);
}

/** Makes `close` of a gateway: it is not ready from the call on, and is shut down after the delay, or when `close` is called without one. */
export function createClose(shutDown: () => Promise<void>) {
  const begun = new AbortController();
  let isClosing = false;
  return {
    isClosing: () => isClosing,
    async close(options?: { readonly delay?: number }): Promise<void> {
      // whoever hands `close` to another function as its callback gives it what that function says, `null` too
      const delay = options?.delay ?? 0;
      requireDelay(delay);
      isClosing = true;
      // it rejects where another call has begun to shut down
      if (delay > 0) await sleep(delay, undefined, { signal: begun.signal }).catch(() => {});
      begun.abort();
      await shutDown();
    },
  };
}
