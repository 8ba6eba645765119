import { durableCollection } from '../../mongo/collection.ts';
import { hourLength, hourOf, merged, percentile } from '../../mongo/durations.ts';
import type { TallyDocument, TallyModel } from './model.ts';

/** The attempts of one hour, or of all hours. */
export interface AttemptStats {
  readonly succeeded: number;
  readonly failed: number;
  /** Milliseconds; `null` without attempts. */
  readonly p50: number | null;
  readonly p95: number | null;
}

export interface WebhookStats extends AttemptStats {
  readonly since: Date;
  readonly until: Date;
  /** All 168, oldest first. */
  readonly hours: readonly (AttemptStats & { readonly start: Date })[];
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

/** Reads a webhook's last 168 hours: at most 168 small documents, by a range of ids. */
export function createReadStats(tallies: TallyModel) {
  const collection = durableCollection(tallies);
  return async function readStats(webhookId: string, now: number): Promise<WebhookStats> {
    const first = hourOf(now) - (hoursShown - 1) * hourLength;
    const since = new Date(first);
    const documents = await collection
      .find({ _id: { $gte: `${webhookId}:${since.toISOString()}`, $lt: `${webhookId};` } })
      .toArray();
    const byHour = new Map(documents.map((tally) => [tally.hour.getTime(), tally]));
    const hours = Array.from({ length: hoursShown }, (_, i) => {
      const start = first + i * hourLength;
      return { start: new Date(start), ...summed([byHour.get(start) ?? nothing]) };
    });
    return { since, until: new Date(now), ...summed(documents), hours };
  };
}
