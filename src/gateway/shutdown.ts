import { setTimeout as sleep } from 'node:timers/promises';
import { refuse } from '../errors.ts';
import { withTimeout } from '../mongo/periodic.ts';
import type { Sockets } from '../sockets/sockets.ts';
import type { Services } from './services.ts';

/** How long a delivery attempt under way may take to get its record. Milliseconds. */
const attemptTimeout = 35_000;
/** How long a part may take to write what it holds while the database is unavailable. Milliseconds. */
const unavailableTimeout = 3_000;
/** How long it may take otherwise, and how long all of closing may take beside the calls and attempts under way. Milliseconds. */
const writeTimeout = 10_000;
/** How long the last steps may take each. Milliseconds. */
const lastTimeout = 1_000;
/** How long the last bytes of answers that were ended may take to be sent. Milliseconds. */
const flushTimeout = 1_000;

/** The longest delay of `close`. Milliseconds. */
const longestDelay = 3_600_000;

/** Makes `close` of a gateway: it is not ready from the call on, and is shut down after the delay, or when `close` is called without one. */
export function createClose(services: Services, sockets: Sockets) {
  const shutDown = createShutdown(services, sockets);
  const begun = new AbortController();
  let closing: Promise<void> | undefined;
  let isClosing = false;
  return {
    isClosing: () => isClosing,
    async close(options?: { readonly delay?: number }): Promise<void> {
      // whoever hands `close` to another function as its callback gives it what that function says, `null` too
      const delay = options?.delay ?? 0;
      if (!Number.isInteger(delay) || delay < 0 || delay > longestDelay) {
        refuse('invalid_value', 'delay', `must be a whole number from 0 to ${longestDelay}`);
      }
      isClosing = true;
      // it rejects where another call has begun to shut down
      if (delay > 0) await sleep(delay, undefined, { signal: begun.signal }).catch(() => {});
      begun.abort();
      closing ??= shutDown();
      await closing;
    },
  };
}

/** Makes the function that closes the parts of a gateway in their order: first what makes work, then what records it, the database last. */
function createShutdown(services: Services, sockets: Sockets) {
  const { recoveries, deliveries, health, accounting, keys, refusals, events, proxy, backgroundResponses } = services;
  const { processRecord, storedObjects, database, access, openRequests } = services;
  const { drainTimeout, logger } = services.options;

  /** Waits for the calls under way to end normally, and ends them when that takes too long. */
  async function endCalls(): Promise<void> {
    const endsAt = performance.now() + drainTimeout;
    await Promise.all([openRequests.drain(drainTimeout), sockets.drain(drainTimeout)]);
    await proxy.drain(Math.max(0, endsAt - performance.now()));
    openRequests.refuseBodies();
    await proxy.close();
    await openRequests.drain(flushTimeout);
  }

  /**
   * Closes each part, whatever becomes of the others: what the database does not take in time is left to other processes.
   * @param timeout milliseconds
   */
  async function closeAll(timeout: number, closings: readonly (() => Promise<unknown>)[]): Promise<void> {
    for (const outcome of await Promise.allSettled(closings.map((close) => withTimeout(close(), timeout)))) {
      if (outcome.status === 'fulfilled') continue;
      logger.warn('not all could be written when the gateway was closed', { reason: String(outcome.reason) });
    }
  }

  /** Stops recoveries and deliveries together, waits for what is under way, then closes what sends it. @param longest milliseconds */
  async function endDeliveries(longest: number): Promise<void> {
    const ended = Promise.allSettled([recoveries.close(), deliveries.stop()]);
    await withTimeout(ended, longest).catch(() => {});
    await deliveries.close();
  }

  return async function shutDown(): Promise<void> {
    const longest = Math.max(attemptTimeout, drainTimeout);
    const endsAt = performance.now() + longest + writeTimeout;
    /** @param others what the steps after it may still take */
    function timeout(others: number): number {
      const remaining = Math.max(0, endsAt - performance.now() - others);
      return Math.min(remaining, access.isUnavailable ? unavailableTimeout : writeTimeout);
    }
    const drained = longest + flushTimeout + unavailableTimeout;
    await closeAll(drained, [
      () => endDeliveries(longest),
      endCalls,
      () => backgroundResponses.close(),
      () => storedObjects.models.close(),
    ]);
    await closeAll(timeout(2 * lastTimeout), [health.close, accounting.close, keys.close, refusals.close]);
    await closeAll(timeout(lastTimeout), [events.close, processRecord.close, async () => access.close()]);
    await closeAll(lastTimeout, [database.close]);
  };
}
