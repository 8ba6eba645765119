import { durableCollection } from '../../mongo/collection.ts';
import type { Logger } from '../../options/options.ts';
import type { MadeAttempt } from './batch.ts';
import type { DisableFailing } from './disable-failing.ts';
import type { HealthDocument, HealthModel, TallyModel } from './model.ts';
import { createRecorder } from './recorder.ts';
import { createReadStats, type WebhookStats } from './stats.ts';

export interface HealthServiceDeps {
  readonly tallies: TallyModel;
  readonly healths: HealthModel;
  readonly disableFailing: DisableFailing;
  /** How long attempts are gathered before they are written. Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** What the attempts say about the webhooks. */
export interface HealthService {
  /** Builds the indexes. */
  init(): Promise<void>;
  /** Notes an attempt; it is in the statistics within about the interval. */
  record(attempt: MadeAttempt): void;
  /** What is remembered of a webhook's attempts; nothing of one that there were none to. */
  of(webhookId: string): Promise<Partial<HealthDocument>>;
  /** The attempts of the last 168 hours. @param now milliseconds since 1970 */
  stats(webhookId: string, now: number): Promise<WebhookStats>;
  /** Writes what has been noted. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** Everything about the health of webhooks, joined. */
export function createHealthService(deps: HealthServiceDeps): HealthService {
  const { tallies, healths, disableFailing, interval, logger } = deps;
  const collection = durableCollection(healths);
  const recorder = createRecorder({ tallies, healths, interval, onFailures: disableFailing, logger });

  return {
    async init() {
      await Promise.all([tallies.createIndexes(), healths.createIndexes()]);
    },
    record: recorder.record,
    async of(webhookId) {
      return (await collection.findOne({ _id: webhookId })) ?? {};
    },
    stats: createReadStats(tallies),
    flush: recorder.flush,
    close: recorder.close,
  };
}
