import type { HealthDocument } from './model.ts';

/** How a webhook fares. */
export type HealthState = 'healthy' | 'failing' | 'idle';

/** So many failures without a success between them … */
export const failuresToFail = 3;
/** … over so long make a webhook failing: a burst of events that met one restart does not. Milliseconds. */
const failingFor = 5 * 60_000;
/** A webhook that nothing was sent to for so long is idle. Milliseconds. */
const idleAfter = 7 * 86_400_000;

/** Judges what is remembered of a webhook's attempts. @param now milliseconds since 1970 */
export function healthState(health: Partial<HealthDocument>, now: number): HealthState {
  const { lastSuccessAt, lastFailure, failingSince, failures = 0 } = health;
  const last = Math.max(lastSuccessAt?.getTime() ?? 0, lastFailure?.at.getTime() ?? 0);
  if (failingSince && lastFailure && failures >= failuresToFail) {
    if (lastFailure.at.getTime() - failingSince.getTime() >= failingFor) return 'failing';
  }
  return last < now - idleAfter ? 'idle' : 'healthy';
}
