import { durableCollection } from '../../mongo/collection.ts';
import type { Logger } from '../../options/options.ts';
import type { DisableFailing } from './disable-failing.ts';
import type { HealthDocument, HealthModel, TallyModel } from './model.ts';
import { createRecorder, type RecordedAttempt } from './recorder.ts';
import type { ReportChanges } from './report-changes.ts';
import { createReadStats, type WebhookStats } from './stats.ts';

export interface HealthServiceDeps {
  readonly tallies: TallyModel;
  readonly healths: HealthModel;
  readonly reportChanges: ReportChanges;
  readonly disableFailing: DisableFailing;
  /** How long attempts are gathered before they are written. Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** Statistics and health of webhooks, from their attempts. */
export interface HealthService {
  /** Notes an attempt; it is in the statistics after about `interval`. */
  record(attempt: RecordedAttempt): void;
  /** The health of a webhook; `{}` if it had no attempts. */
  of(webhookId: string): Promise<Partial<HealthDocument>>;
  /** The attempts of the last 168 hours. @param now milliseconds since 1970 */
  stats(webhookId: string, now: number): Promise<WebhookStats>;
  /** Writes the noted attempts. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** Joins the parts of webhook health. */
export function createHealthService(deps: HealthServiceDeps): HealthService {
  const { tallies, healths, reportChanges, disableFailing, interval, logger } = deps;
  const collection = durableCollection(healths);
  const recorder = createRecorder({
    tallies,
    healths,
    interval,
    onWritten: reportChanges,
    onFailures: disableFailing,
    logger,
  });

  return {
    record: recorder.record,
    async of(webhookId) {
      return (await collection.findOne({ _id: webhookId })) ?? {};
    },
    stats: createReadStats(tallies),
    flush: recorder.flush,
    close: recorder.close,
  };
}
