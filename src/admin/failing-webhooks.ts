import { GatewayError } from '../errors.ts';
import { durableCollection } from '../mongo/collection.ts';
import { checkPage, type Page, pageLimit } from '../page.ts';
import type { HealthModel } from '../webhooks/health/model.ts';
import type { AccountWebhook } from './accounts/account.ts';
import type { ReadWebhooks } from './webhooks.ts';

/** Which page of the webhooks that fail. */
export interface FailingWebhooksPage extends Page {
  /** Active ones whose health is `failing`, or those that the gateway has disabled. @default 'failing' */
  readonly state?: 'failing' | 'disabled';
}

export interface FailingWebhooksDeps {
  readonly healths: HealthModel;
  readonly readWebhooks: ReadWebhooks;
}

/**
 * The webhooks of all accounts that fail or are disabled, oldest first.
 * @throws GatewayError `invalid_value`
 */
export type ListFailingWebhooks = (
  page?: FailingWebhooksPage,
) => Promise<{ readonly webhooks: AccountWebhook[]; readonly hasMore: boolean }>;

const following = (after: string | undefined) => (after === undefined ? {} : { _id: { $gt: after } });

export function createListFailingWebhooks({ healths, readWebhooks }: FailingWebhooksDeps): ListFailingWebhooks {
  const collection = durableCollection(healths);

  /** The next webhooks that were reported as failing; some may not be there any more. */
  async function reportedIds(after: string | undefined, limit: number): Promise<string[]> {
    const found = await collection
      .find(
        { reportedFailingSince: { $exists: true }, ...following(after) },
        { projection: { _id: 1 }, hint: 'failing', batchSize: limit + 1 },
      )
      .sort({ _id: 1 })
      .limit(limit)
      .toArray();
    return found.map(({ _id }) => _id);
  }

  /** The health of a deleted webhook is kept for long: its mark is removed, so that nobody passes over it twice. */
  async function removeMarks(ids: readonly string[]): Promise<void> {
    if (ids.length > 0)
      await collection.updateMany({ _id: { $in: [...ids] } }, { $unset: { reportedFailingSince: true } });
  }

  async function failing(after: string | undefined, limit: number): Promise<AccountWebhook[]> {
    const webhooks: AccountWebhook[] = [];
    let last = after;
    let isLast = false;
    // one that was deleted or set inactive while it failed is passed over
    while (webhooks.length < limit && !isLast) {
      const ids = await reportedIds(last, limit);
      const found = await readWebhooks({ _id: { $in: ids } }, limit);
      webhooks.push(...found.filter(({ active, health }) => active && health.state === 'failing'));
      const present = new Set(found.map(({ id }) => id));
      await removeMarks(ids.filter((id) => !present.has(id)));
      last = ids.at(-1);
      isLast = ids.length < limit;
    }
    return webhooks;
  }

  const disabled = (after: string | undefined, limit: number) =>
    readWebhooks({ disabled: { $exists: true }, ...following(after) }, limit, 'disabled');

  return async function listFailingWebhooks({ state = 'failing', limit = pageLimit, after } = {}) {
    checkPage({ limit, ...(after !== undefined && { after }) }, 'wh');
    if (state !== 'failing' && state !== 'disabled') {
      throw new GatewayError('invalid_value', 'state: must be failing or disabled', { param: 'state' });
    }
    const found = await (state === 'failing' ? failing : disabled)(after, limit + 1);
    return { webhooks: found.slice(0, limit), hasMore: found.length > limit };
  };
}
