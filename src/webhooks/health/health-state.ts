import type { HealthDocument } from './model.ts';

/** The health of a webhook. */
export type HealthState = 'healthy' | 'failing' | 'idle';

/** A webhook is failing after this many failures without a success between them … */
export const minFailures = 3;
/** … over at least this time, so that a burst of events during one restart does not count. Milliseconds. */
const failingFor = 5 * 60_000;
/** A webhook without attempts for this time is idle. Milliseconds. */
const idleAfter = 7 * 86_400_000;

/** Whether a stored health is that of a failing webhook, as an expression of MongoDB. What is missing counts as null, which is below every number. */
export const isFailing = {
  $and: [
    { $gte: ['$failures', minFailures] },
    { $gte: [{ $subtract: ['$lastFailure.at', '$failingSince'] }, failingFor] },
  ],
} as const;

/** The state that follows from the stored health. @param now milliseconds since 1970 */
export function healthState(health: Partial<HealthDocument>, now: number): HealthState {
  const { lastSuccessAt, lastFailure, failingSince, failures = 0 } = health;
  const last = Math.max(lastSuccessAt?.getTime() ?? 0, lastFailure?.at.getTime() ?? 0);
  if (failingSince && lastFailure && failures >= minFailures) {
    if (lastFailure.at.getTime() - failingSince.getTime() >= failingFor) return 'failing';
  }
  return last < now - idleAfter ? 'idle' : 'healthy';
}
