import { refuse } from '../errors.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { checkPage, type Page, pageLimit } from '../mongo/list-page.ts';
import { type HealthState, healthState } from '../webhooks/health.ts';
import type { HealthDocument, HealthModel, WebhookDocument, WebhookModel } from '../webhooks/model.ts';
import { liveRotation } from '../webhooks/rotation.ts';
import { toDetails, type WebhookDetails } from '../webhooks/webhook.ts';

/** A webhook with its health. */
export interface AccountWebhook extends WebhookDetails {
  readonly health: Readonly<
    Pick<HealthDocument, 'lastSuccessAt' | 'lastFailure' | 'failingSince' | 'failures'> & { state: HealthState }
  >;
}

interface WebhookModels {
  readonly webhooks: WebhookModel;
  readonly health: HealthModel;
}

function toHealth(health: Partial<HealthDocument>, now: number): AccountWebhook['health'] {
  const { lastSuccessAt, lastFailure, failingSince, failures } = health;
  return {
    state: healthState(health, now),
    ...(lastSuccessAt !== undefined && { lastSuccessAt }),
    ...(lastFailure && { lastFailure }),
    ...(failingSince && { failingSince }),
    ...(failures !== undefined && { failures }),
  };
}

/** Reads webhooks with their health, oldest first. @param filter which ones: an index answers it */
export async function readWebhooks(
  { webhooks, health }: WebhookModels,
  filter: object,
  limit: number,
  hint?: string,
): Promise<AccountWebhook[]> {
  const documents = await durableCollection(webhooks)
    .aggregate<WebhookDocument>(
      [
        { $match: filter },
        { $sort: { _id: 1 } },
        { $limit: limit },
        // sealed, and not opened here
        { $unset: ['secret', 'headers', 'rotation.previousSecret', 'sealedWith'] },
        { $set: { rotation: liveRotation } },
      ],
      { ...inOneBatch, ...(hint !== undefined && { hint }) },
    )
    .toArray();
  const ids = documents.map(({ _id }) => _id);
  const healths = await durableCollection(health)
    .find({ _id: { $in: ids } }, inOneBatch)
    .toArray();
  const byId = new Map(healths.map((document) => [document._id, document]));
  const now = Date.now();
  return documents.map((webhook) => ({ ...toDetails(webhook), health: toHealth(byId.get(webhook._id) ?? {}, now) }));
}

/** Which page of the webhooks that fail. */
export interface FailingWebhooksPage extends Page {
  /** Active ones whose health is `failing`, or those that the gateway has disabled. @default 'failing' */
  readonly state?: 'failing' | 'disabled';
}

/**
 * The webhooks of all accounts that fail or are disabled, oldest first.
 * @throws GatewayError `invalid_value`
 */
export type ListFailingWebhooks = (
  page?: FailingWebhooksPage,
) => Promise<{ readonly webhooks: AccountWebhook[]; readonly hasMore: boolean }>;

/** How many are looked at together: those that were deleted or are inactive are passed over. */
const batchSize = 500;

const following = (after: string | undefined) => (after === undefined ? {} : { _id: { $gt: after } });

export function createListFailingWebhooks(models: WebhookModels): ListFailingWebhooks {
  const webhooks = durableCollection(models.webhooks);
  const healths = durableCollection(models.health);

  /** The next webhooks that were reported as failing; some may not be there any more. */
  async function reportedIds(after: string | undefined): Promise<string[]> {
    const reported = { reportedFailingSince: { $exists: true }, ...following(after) };
    const options = { projection: { _id: 1 }, hint: 'failing', sort: { _id: 1 }, limit: batchSize } as const;
    const documents = await healths.find(reported, { ...options, ...inOneBatch }).toArray();
    return documents.map(({ _id }) => _id);
  }

  /**
   * The health of a deleted webhook is kept for long: its mark is removed, so that it is not passed over each time. No
   * request waits for that, and a write that fails is made up for by the next look.
   */
  async function removeMarksOfDeleted(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const documents = await webhooks.find({ _id: { $in: [...ids] } }, { projection: { _id: 1 } }).toArray();
    const present = new Set(documents.map(({ _id }) => _id));
    const deleted = ids.filter((id) => !present.has(id));
    const mark = { $unset: { reportedFailingSince: true } } as const;
    if (deleted.length > 0) await healths.updateMany({ _id: { $in: deleted } }, mark, { writeConcern: { w: 1 } });
  }

  async function failing(after: string | undefined, limit: number): Promise<AccountWebhook[]> {
    const failingOnes: AccountWebhook[] = [];
    let last = after;
    let isLast = false;
    while (failingOnes.length < limit && !isLast) {
      const ids = await reportedIds(last);
      const active = await readWebhooks(models, { _id: { $in: ids }, active: true }, batchSize);
      failingOnes.push(...active.filter(({ health }) => health.state === 'failing'));
      const read = new Set(active.map(({ id }) => id));
      removeMarksOfDeleted(ids.filter((id) => !read.has(id))).catch(() => {});
      last = ids.at(-1);
      isLast = ids.length < batchSize;
    }
    return failingOnes;
  }

  const disabled = (after: string | undefined, limit: number) =>
    readWebhooks(models, { disabled: { $exists: true }, ...following(after) }, limit, 'disabled');

  return async function listFailingWebhooks({ state = 'failing', limit = pageLimit, after } = {}) {
    checkPage({ limit, ...(after !== undefined && { after }) }, 'wh');
    if (state !== 'failing' && state !== 'disabled') refuse('invalid_value', 'state', 'must be failing or disabled');
    const accountWebhooks = await (state === 'failing' ? failing : disabled)(after, limit + 1);
    return { webhooks: accountWebhooks.slice(0, limit), hasMore: accountWebhooks.length > limit };
  };
}
