import type { UsageMeter } from '../metering/usage-meter.ts';

/** How long the gateway waits for the usage of an answer that was complete without it when the client disconnected. Milliseconds. */
const usageGrace = 1_000;

/**
 * How long an upstream may still work on a call after the client has disconnected. Milliseconds.
 * @param aborts whether upstream calls are aborted then; where they are not, they run to their end
 */
export function disconnectGrace(aborts: boolean, meter: Pick<UsageMeter, 'isEnded' | 'reported'>): number {
  if (!aborts) return Number.POSITIVE_INFINITY;
  return meter.isEnded && !meter.reported ? usageGrace : 0;
}
