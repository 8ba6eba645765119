import { describeThrown } from '../errors.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { withTimeout } from '../mongo/periodic.ts';
import type { Logger } from '../options/options.ts';
import { isFailing } from './health.ts';
import type { Failure, HealthModel } from './model.ts';
import { forEachDespiteErrors } from './recorder.ts';

/** A webhook that has begun to fail, or has recovered. */
interface ChangedWebhook {
  /** `wh_…` */
  readonly id: string;
  readonly userId: string;
  readonly url: string;
  readonly events: readonly string[];
}

/** A webhook whose attempts have failed for minutes. */
export interface FailingWebhook extends ChangedWebhook {
  /** When the first attempt since its last success failed, by the database's clock. */
  readonly failingSince: Date;
  /** The last failed attempt. */
  readonly lastFailure: Readonly<Failure>;
}

/** A failing webhook that has answered an attempt with a 2xx. */
export interface RecoveredWebhook extends ChangedWebhook {
  /** As `webhook.failing` said. */
  readonly failingSince: Date;
  /** When its last attempt succeeded, by the database's clock. */
  readonly lastSuccessAt: Date;
}

/** Called when the health of a webhook has changed, by the process whose write has marked the change. */
interface HealthListeners {
  readonly onFailing: (webhook: FailingWebhook) => void;
  readonly onRecovered: (webhook: RecoveredWebhook) => void;
}

export interface ReportChangesDeps extends HealthListeners {
  readonly healths: HealthModel;
  /** Those of the webhooks that exist. */
  readonly find: (webhookIds: readonly string[]) => Promise<readonly (ChangedWebhook & { readonly active: boolean })[]>;
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * Reports the changes of the health of webhooks. Never rejects; what fails is looked at again with the next call. A call while
 * an earlier one is at work does not wait: the earlier one looks at these webhooks too.
 */
export type ReportChanges = (webhookIds: Iterable<string>) => Promise<void>;

const startedFailing = { reportedFailingSince: { $exists: false }, $expr: isFailing };
const stoppedFailing = { reportedFailingSince: { $exists: true }, $expr: { $not: isFailing } };
const changed = { $or: [startedFailing, stoppedFailing] };
/** Webhooks that are marked at the same time: after an outage of all receivers, tens of thousands change at once. */
const concurrency = 16;
const mark = [{ $set: { reportedFailingSince: { $cond: [isFailing, '$failingSince', '$$REMOVE'] } } }];

/** One read finds that nothing has changed. A change is marked in the stored health only if no other process has marked it. */
export function createReportChanges(deps: ReportChangesDeps): ReportChanges {
  const { healths, find, onFailing, onRecovered, logger } = deps;
  const collection = durableCollection(healths);
  let unreported = new Set<string>();
  let running: Promise<void> | undefined;

  async function report({ id, userId, url, events, active }: Awaited<ReturnType<typeof find>>[number]): Promise<void> {
    // a webhook that gets nothing is not reported as failing
    const condition = active ? changed : stoppedFailing;
    const filter = { _id: id, ...condition };
    const before = await withTimeout(collection.findOneAndUpdate(filter, mark, { returnDocument: 'before' }));
    if (!before) return;
    const webhook = { id, userId, url, events };
    const { failingSince, lastFailure, lastSuccessAt, reportedFailingSince } = before;
    if (reportedFailingSince) {
      if (lastSuccessAt) onRecovered({ ...webhook, failingSince: reportedFailingSince, lastSuccessAt });
    } else if (failingSince && lastFailure) onFailing({ ...webhook, failingSince, lastFailure });
  }

  async function reportAll(webhookIds: readonly string[]): Promise<void> {
    const options = { projection: { _id: 1 }, ...inOneBatch } as const;
    const cursor = collection.find({ _id: { $in: [...webhookIds] }, ...changed }, options);
    const ids = (await withTimeout(cursor.toArray())).map(({ _id }) => _id);
    if (ids.length > 0) await forEachDespiteErrors(await withTimeout(find(ids)), report, concurrency);
  }

  /** Reports until nothing is left, or something fails. */
  async function reportUnreported(): Promise<void> {
    while (unreported.size > 0) {
      const looked = unreported;
      unreported = new Set();
      try {
        await reportAll([...looked]);
      } catch (error) {
        logger.warn('changes of the health of webhooks will be reported later', { reason: describeThrown(error) });
        unreported = new Set([...looked, ...unreported]);
        return;
      }
    }
  }

  return async function reportChanges(webhookIds) {
    for (const id of webhookIds) unreported.add(id);
    if (running) return;
    running = reportUnreported().finally(() => {
      running = undefined;
    });
    // a process that closes does not wait until tens of thousands are reported
    await withTimeout(running).catch(() => {});
  };
}
