import { setTimeout as sleep } from 'node:timers/promises';
import { firstId } from '../../../src/ids.ts';
import type { Setup } from '../deliveries/setup.ts';

/** How often what is old is removed; the shorter, the less the size goes up and down. Milliseconds. */
const interval = 5_000;
const day = 86_400_000;

/**
 * Removes ended deliveries and their events after so many milliseconds, in place of the TTL indexes: the shortest retention is
 * `deliveries.retentionDays: 1`, which the gateways must have.
 * @returns what ends it
 */
export function expireAfter({ connection }: Setup, age: number): () => Promise<void> {
  const ended = new AbortController();
  const events = connection.collection<{ _id: string }>('gateway_events');
  const deliveries = connection.collection('gateway_deliveries');
  const removing = (async () => {
    while (!ended.signal.aborted) {
      const before = Date.now() - age;
      await deliveries.deleteMany({ expiresAt: { $lte: new Date(before + day) } });
      await events.deleteMany({ _id: { $lt: firstId('evt', before) }, fanOut: 'done' });
      await sleep(interval, undefined, { signal: ended.signal }).catch(() => {});
    }
  })();
  return async () => {
    ended.abort();
    await removing;
  };
}
