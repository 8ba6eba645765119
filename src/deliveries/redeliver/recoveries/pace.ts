import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves when the next step may start; to `false` if there must be no more. */
export type Pace = () => Promise<boolean>;

/** Spaces steps evenly, `perSecond` a second. Unused steps are not made up for. */
export function createPace(perSecond: number, signal: AbortSignal): Pace {
  const interval = 1_000 / perSecond;
  let next = performance.now();
  return async function pace() {
    const now = performance.now();
    next = Math.max(next, now - interval);
    const wait = next - now;
    next += interval;
    if (wait > 0) await sleep(wait, undefined, { signal }).catch(() => {});
    return !signal.aborted;
  };
}
