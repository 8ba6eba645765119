import { durableCollection } from '../../mongo/collection.ts';
import { findConfirmed } from '../../mongo/confirmed-reads.ts';
import type { Logger } from '../../options/options.ts';
import type { DisabledWebhook, DisableOptions } from '../../options/webhooks.ts';
import { minFailures } from './health-state.ts';
import type { HealthModel } from './model.ts';
import { forEachDespiteErrors, type RecordedAttempt } from './recorder.ts';

type Reason = DisabledWebhook['reason'];

export interface DisableFailingDeps {
  readonly healths: HealthModel;
  /** The webhook if it has been active ever since `since`; otherwise `null`. */
  readonly activeSince: (webhookId: string, since: Date) => Promise<Omit<DisabledWebhook, 'reason'> | null>;
  /** Sets it inactive on the same condition; `false` if that is no longer met. */
  readonly disable: (webhookId: string, reason: Reason, since: Date) => Promise<boolean>;
  /** Called when a webhook is disabled, by the process whose write has done it. @default none */
  readonly onDisabled?: (webhook: DisabledWebhook) => void;
  readonly options: DisableOptions;
  readonly logger: Logger;
}

/** Disables webhooks that have failed for too long, or that have answered 410 Gone, if the options ask for it. */
export type DisableFailing = (failures: readonly RecordedAttempt[]) => Promise<void>;

const day = 86_400_000;
/** How long the host's decision to keep a failing webhook is valid. Milliseconds. */
const sparedFor = day;

export function createDisableFailing({ healths, options, logger, ...webhooks }: DisableFailingDeps): DisableFailing {
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
    webhooks.onDisabled?.({ id, userId, url, events, reason });
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

  return async function disableFailing(failures) {
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
