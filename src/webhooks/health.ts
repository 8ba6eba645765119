import { durableCollection } from '../mongo/collection.ts';
import { hourLength, hourOf, merged, percentile } from '../mongo/durations.ts';
import type { HealthDocument, TallyDocument, TallyModel } from './model.ts';
import { createRecorder, type RecorderDeps } from './recorder.ts';

export interface HealthServiceDeps extends Omit<RecorderDeps, 'onWritten' | 'onFailures'> {
  readonly reportChanges: RecorderDeps['onWritten'];
  readonly disableFailing: RecorderDeps['onFailures'];
}

/** Statistics and health of webhooks, from their attempts. */
export function createHealthService({ reportChanges, disableFailing, ...deps }: HealthServiceDeps) {
  const collection = durableCollection(deps.healths);
  return {
    ...createRecorder({ ...deps, onWritten: reportChanges, onFailures: disableFailing }),
    /** The health of a webhook; `{}` if it had no attempts. */
    async of(webhookId: string): Promise<Partial<HealthDocument>> {
      return (await collection.findOne({ _id: webhookId })) ?? {};
    },
    stats: createReadStats(deps.tallies),
  };
}

export type HealthService = ReturnType<typeof createHealthService>;

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

/** The attempts of one hour, or of all hours. */
export interface AttemptStats {
  readonly succeeded: number;
  readonly failed: number;
  /** Milliseconds; `null` without attempts. */
  readonly p50: number | null;
  readonly p95: number | null;
}

const hoursShown = 168;

const nothing = { succeeded: 0, failed: 0, durations: {} } as const;

function summed(tallies: readonly Pick<TallyDocument, 'succeeded' | 'failed' | 'durations'>[]): AttemptStats {
  const durations = merged(tallies.map((tally) => tally.durations));
  return {
    succeeded: tallies.reduce((sum, { succeeded }) => sum + succeeded, 0),
    failed: tallies.reduce((sum, { failed }) => sum + failed, 0),
    p50: percentile(durations, 0.5),
    p95: percentile(durations, 0.95),
  };
}

/** Reads a webhook's last 168 hours: at most 168 small documents, by a range of ids. `now` is in milliseconds since 1970. */
function createReadStats(tallies: TallyModel) {
  const collection = durableCollection(tallies);
  return async function readStats(webhookId: string, now: number) {
    const first = hourOf(now) - (hoursShown - 1) * hourLength;
    const since = new Date(first);
    const documents = await collection
      .find({ _id: { $gte: `${webhookId}:${since.toISOString()}`, $lt: `${webhookId};` } })
      .toArray();
    const byHour = new Map(documents.map((tally) => [tally.hour.getTime(), tally]));
    /** All 168, oldest first. */
    const hours = Array.from({ length: hoursShown }, (_, i) => {
      const start = first + i * hourLength;
      return { start: new Date(start), ...summed([byHour.get(start) ?? nothing]) };
    });
    return { since, until: new Date(now), ...summed(documents), hours };
  };
}
