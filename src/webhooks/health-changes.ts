import { describeThrown } from '../errors.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { findConfirmed } from '../mongo/confirmed-reads.ts';
import { TimeoutError, withTimeout } from '../mongo/periodic.ts';
import type { Logger } from '../options/options.ts';
import type { DeliveryOptions, DisabledWebhook } from '../options/webhooks.ts';
import { isFailing, minFailures } from './health.ts';
import type { Failure, HealthModel } from './model.ts';
import type { RecordedAttempt } from './recorder.ts';
import type { WebhookService } from './service.ts';
import type { Webhook } from './webhook.ts';

/** A webhook that has begun to fail, or has recovered. */
type ChangedWebhook = Pick<Webhook, 'id' | 'userId' | 'url' | 'events'>;

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

type ReportedWebhook = ChangedWebhook & Pick<Webhook, 'active'>;

/** The listeners are called by the process whose write has marked the change. */
export interface ReportChangesDeps {
  readonly healths: HealthModel;
  /** Those of the webhooks that exist. */
  readonly find: (webhookIds: readonly string[]) => Promise<readonly ReportedWebhook[]>;
  readonly onFailing: (webhook: FailingWebhook) => void;
  readonly onRecovered: (webhook: RecoveredWebhook) => void;
  readonly logger: Pick<Logger, 'warn'>;
}

const startedFailing = { reportedFailingSince: { $exists: false }, $expr: isFailing };
const stoppedFailing = { reportedFailingSince: { $exists: true }, $expr: { $not: isFailing } };
const changed = { $or: [startedFailing, stoppedFailing] };
/** Webhooks that are marked at the same time: after an outage of all receivers, tens of thousands change at once. */
const concurrency = 16;
const mark = [{ $set: { reportedFailingSince: { $cond: [isFailing, '$failingSince', '$$REMOVE'] } } }];

/**
 * Makes the function that reports the changes of the health of webhooks. It never rejects; what fails is looked at again with the next call. A
 * call while an earlier one is at work does not wait: the earlier one looks at these webhooks too. One read finds that nothing has changed. A
 * change is marked in the stored health only if no other process has marked it.
 */
export function createReportChanges({ healths, find, onFailing, onRecovered, logger }: ReportChangesDeps) {
  const collection = durableCollection(healths);
  let unreported = new Set<string>();
  let running: Promise<void> | undefined;

  async function report({ id, userId, url, events, active }: ReportedWebhook): Promise<void> {
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

  return async function reportChanges(webhookIds: Iterable<string>): Promise<void> {
    for (const id of webhookIds) unreported.add(id);
    if (running) return;
    running = reportUnreported().finally(() => {
      running = undefined;
    });
    // a process that closes does not wait until tens of thousands are reported
    await withTimeout(running).catch(() => {});
  };
}

type Reason = DisabledWebhook['reason'];

export interface DisableFailingDeps {
  readonly healths: HealthModel;
  readonly webhooks: Pick<WebhookService, 'activeSince' | 'disable'>;
  /** Called when a webhook is disabled, by the process whose write has done it. */
  readonly onDisabled: (webhook: DisabledWebhook) => void;
  readonly options: Pick<DeliveryOptions, 'disableAfterDays' | 'disableOnGone' | 'onDisable'>;
  readonly logger: Logger;
}

const day = 86_400_000;
/** How long the host's decision to keep a failing webhook is valid. Milliseconds. */
const sparedFor = day;

/** Makes the function that disables webhooks that have failed for too long, or have answered 410 Gone, if the options ask for it. */
export function createDisableFailing({ healths, webhooks, onDisabled, options, logger }: DisableFailingDeps) {
  const { disableAfterDays, disableOnGone, onDisable } = options;
  const collection = durableCollection(healths);

  /** The host decides. If its hook fails, it is asked again later. */
  async function disable(webhookId: string, reason: Reason, since: Date): Promise<void> {
    const webhook = await webhooks.activeSince(webhookId, since);
    if (!webhook) return;
    if ((await onDisable?.({ ...webhook, reason })) === false) {
      await collection.updateOne({ _id: webhookId }, [{ $set: { sparedAt: '$$NOW' } }]);
      return;
    }
    if (!(await webhooks.disable(webhookId, reason, since))) return;
    logger.warn('a webhook was disabled', { webhookId, reason });
    const { id, userId, url, events } = webhook;
    onDisabled({ id, userId, url, events, reason });
  }

  /** The webhooks that have only failed for this many days, and that the host has not decided to keep lately. */
  async function failingTooLong(ids: readonly string[], days: number): Promise<string[]> {
    const filterFor = (webhookIds: readonly string[]) => ({
      _id: { $in: [...webhookIds] },
      failures: { $gte: minFailures },
      $expr: {
        $and: [
          { $lte: ['$failingSince', { $subtract: ['$$NOW', days * day] }] },
          { $lte: [{ $ifNull: ['$sparedAt', new Date(0)] }, { $subtract: ['$$NOW', sparedFor] }] },
        ],
      },
    });
    const projection = { _id: 1 } as const;
    const seeming = await collection.find(filterFor(ids), { projection }).toArray();
    if (seeming.length === 0) return [];
    // a replaced primary does not know a later success
    const confirmed = await findConfirmed(collection, filterFor(seeming.map(({ _id }) => _id)), { projection });
    return confirmed.map(({ _id }) => _id);
  }

  return async function disableFailing(failures: readonly RecordedAttempt[]): Promise<void> {
    const ids = [...new Set(failures.map(({ webhookId }) => webhookId))];
    if (disableOnGone) {
      const goneAt = new Map(
        failures.filter(({ status }) => status === 410).map(({ webhookId, at }) => [webhookId, at]),
      );
      await forEachDespiteErrors(goneAt, ([id, at]) => disable(id, 'gone', at));
    }
    if (disableAfterDays === undefined) return;
    const failing = await failingTooLong(ids, disableAfterDays);
    await forEachDespiteErrors(failing, (id) => disable(id, 'failing', new Date(Date.now() - disableAfterDays * day)));
  };
}

/** A host's function may throw something that throws when it is looked at. */
function isTimeout(error: unknown): boolean {
  try {
    return error instanceof TimeoutError;
  } catch {
    return false;
  }
}

/**
 * Runs the tasks, at most so many at a time, even after one has failed. After a TimeoutError it starts no more: each of the
 * others would wait as long.
 * @param concurrency how many run at a time
 * @throws the first error
 */
async function forEachDespiteErrors<Item>(
  items: Iterable<Item>,
  task: (item: Item) => Promise<void>,
  concurrency = 1,
): Promise<void> {
  const iterator = items[Symbol.iterator]();
  let failure: { readonly error: unknown } | undefined;

  async function work(): Promise<void> {
    for (let next = iterator.next(); !next.done; next = iterator.next()) {
      try {
        await task(next.value);
      } catch (error) {
        failure ??= { error };
        if (isTimeout(error)) return;
      }
    }
  }

  await Promise.all(Array.from({ length: concurrency }, work));
  if (failure) throw failure.error;
}
