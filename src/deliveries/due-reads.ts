import type { EventModel } from '../events/model.ts';
import type { PartOfQuery, UnfinishedEvent } from '../events/outbox.ts';
import { fromNow } from '../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { type AttemptRef, type DeliveryModel, refOf, type WebhookRef } from './model.ts';

/** A position in the order in which attempts become due. */
export interface DuePosition {
  readonly claimableAt: Date;
  readonly webhookId: string;
}

/** Webhooks that have something due, and events that wait for their fan-out. */
export interface DuePage {
  readonly webhookIds: readonly string[];
  /** The position after which there may be more; `null` at the end. */
  readonly next: DuePosition | null;
  readonly events: readonly UnfinishedEvent[];
}

/** What a read of some webhooks has found. */
export interface FoundAttempts {
  /** Attempts that may be claimed, longest due first. */
  readonly refs: readonly AttemptRef[];
  /** Webhooks with more due within a second, and in how many milliseconds: a job may come early, because clocks differ a little. */
  readonly soon: readonly (Readonly<WebhookRef> & { readonly wait: number })[];
}

/**
 * Finds the attempts that may be claimed: those that are due and free, and those whose lease has lapsed. Each read is a range of an
 * index by the database's clock, however much is due later. Attempts are read by webhook, which keeps claims fair: however
 * much is due for one webhook, the attempts of another are found just as easily.
 */
export interface DueAttempts {
  /**
   * Finds the webhooks that have something due, longest due first, and in the same round trip the events that wait for their
   * fan-out.
   * @param limit deliveries that one page reads
   * @param events the query for events; `null` for none
   */
  look(after: DuePosition | null, limit: number, events: PartOfQuery | null): Promise<DuePage>;
  /** As many attempts of each webhook as its share says. */
  ofWebhooks(shares: ReadonlyMap<string, number>): Promise<FoundAttempts>;
}

interface Group {
  readonly _id: string;
  readonly claimableAt: Date;
  readonly count: number;
}

interface FoundAttempt extends WebhookRef {
  readonly _id: string;
  readonly attempt: number;
  readonly isClaimed: boolean;
  /** Milliseconds until it may be claimed; 0 or less if it may be now. */
  readonly wait: number;
}

/** How early a job may come, by another process's clock or by its timer, and still be followed by a look in time. Milliseconds. */
const earlyBy = 1_000;

const isDue = { $lte: ['$claimableAt', '$$NOW'] } as const;
const beginning: DuePosition = { claimableAt: new Date(0), webhookId: '' };

/** Uses the index `due`: only pending deliveries have the field, so no other condition is needed. */
export function dueWebhooksPipeline({ claimableAt, webhookId }: DuePosition, limit: number) {
  return [
    {
      $match: {
        claimableAt: { $gte: claimableAt },
        $or: [{ claimableAt: { $gt: claimableAt } }, { webhookId: { $gt: webhookId } }],
        $expr: isDue,
      },
    },
    { $sort: { claimableAt: 1, webhookId: 1 } },
    { $limit: limit },
    { $group: { _id: '$webhookId', claimableAt: { $last: '$claimableAt' }, count: { $sum: 1 } } },
  ];
}

/** Uses the index `dueOfWebhook`. */
export function dueOfWebhookPipeline(webhookId: string, limit: number) {
  return [
    { $match: { webhookId, state: 'pending', $expr: { $lte: ['$claimableAt', fromNow(earlyBy)] } } },
    { $sort: { claimableAt: 1 } },
    { $limit: limit },
    {
      $project: {
        webhookId: 1,
        userId: 1,
        attempt: 1,
        isClaimed: { $ne: ['$lease', null] },
        wait: { $subtract: ['$claimableAt', '$$NOW'] },
      },
    },
  ];
}

function isLater(a: DuePosition, b: DuePosition): boolean {
  const difference = a.claimableAt.getTime() - b.claimableAt.getTime();
  return difference > 0 || (difference === 0 && a.webhookId > b.webhookId);
}

export function createDueAttempts(deliveries: DeliveryModel): DueAttempts {
  const collection = durableCollection(deliveries);
  const coll = collection.collectionName;

  return {
    async look(after, limit, events) {
      const beside = events ? [{ $unionWith: events }] : [];
      const entries = await collection
        .aggregate<Group | UnfinishedEvent>([...dueWebhooksPipeline(after ?? beginning, limit), ...beside], inOneBatch)
        .toArray();
      const groups = entries.filter((entry) => 'count' in entry);
      const deliveryCount = groups.reduce((sum, { count }) => sum + count, 0);
      const places = groups.map(({ _id: webhookId, claimableAt }) => ({ webhookId, claimableAt }));
      const last = places.reduce((a, b) => (isLater(b, a) ? b : a), beginning);
      return {
        webhookIds: groups.map(({ _id }) => _id),
        next: deliveryCount === limit ? last : null,
        events: entries.filter((entry) => 'targetCount' in entry),
      };
    },
    async ofWebhooks(shares) {
      const [first, ...others] = [...shares].map(([webhookId, share]) => dueOfWebhookPipeline(webhookId, share));
      if (!first) return { refs: [], soon: [] };
      const unions = others.map((pipeline) => ({ $unionWith: { coll, pipeline } }));
      const found = await collection.aggregate<FoundAttempt>([...first, ...unions], inOneBatch).toArray();
      const due = found.filter(({ wait }) => wait <= 0);
      const early = found.filter(({ wait, isClaimed }) => wait > 0 && !isClaimed);
      return {
        refs: due.map(refOf),
        soon: early.map(({ webhookId, userId, wait }) => ({ webhookId, userId, wait })),
      };
    },
  };
}

/** What is due and what no process has claimed, of one kind. */
export interface DueCount {
  /** How many, counted up to 10,000: a count takes time with each document. */
  readonly count: number;
  /** How long the oldest has been due. Seconds. */
  readonly oldest: number;
  /** Since when the oldest has been due, by the database's clock; `null` where none is. */
  readonly since: Date | null;
}

/** What all processes together have to do. */
export interface BacklogSize {
  readonly deliveries: DueCount;
  /** Events whose deliveries have not been made. */
  readonly events: DueCount;
}

/** Up to where documents are counted. */
export const countLimit = 10_000;
/** How long the database may take. Milliseconds. */
const maxTimeMS = 1_000;

/** Reads a range of an index that begins with the time from which a document may be claimed. */
async function readDue(
  model: Pick<DeliveryModel | EventModel, 'aggregate'>,
  field: string,
  { hint, filter = {}, limit }: { readonly hint: string; readonly filter?: object; readonly limit: number },
): Promise<DueCount> {
  const [found] = await model
    .aggregate<DueCount>([
      { $match: { ...filter, [field]: { $gte: new Date(0) }, $expr: { $lte: [`$${field}`, '$$NOW'] } } },
      { $sort: { [field]: 1 } },
      { $limit: limit },
      { $group: { _id: null, count: { $sum: 1 }, since: { $min: `$${field}` } } },
      { $project: { count: 1, since: 1, oldest: { $divide: [{ $subtract: ['$$NOW', '$since'] }, 1_000] } } },
    ])
    .option({ maxTimeMS, hint });
  return { count: found?.count ?? 0, oldest: found?.oldest ?? 0, since: found?.since ?? null };
}

/** @param limit how many of each kind are counted. @default 10,000 */
export async function readBacklogSize(
  deliveries: DeliveryModel,
  events: EventModel,
  limit = countLimit,
): Promise<BacklogSize> {
  const [dueDeliveries, dueEvents] = await Promise.all([
    readDue(deliveries, 'claimableAt', { hint: 'due', limit }),
    readDue(events, 'fanOutAt', { hint: 'unfinishedFanOut', filter: { fanOut: 'pending' }, limit }),
  ]);
  return { deliveries: dueDeliveries, events: dueEvents };
}

/** How long the oldest of both kinds has been due, in seconds; `null` where nothing is. Costs two entries of an index. */
export async function readOldestDue(deliveries: DeliveryModel, events: EventModel): Promise<number | null> {
  const due = Object.values(await readBacklogSize(deliveries, events, 1)).filter(({ count }) => count > 0);
  return due.length > 0 ? Math.max(...due.map(({ oldest }) => oldest)) : null;
}

/** Counts deliveries whose next attempt is due later; claimed ones are not among them. Looks at 10,000, those that are due next. */
export async function readScheduled(deliveries: DeliveryModel): Promise<{ count: number; isMore: boolean }> {
  const [found] = await deliveries
    .aggregate<{ seen: number; count: number }>([
      { $match: { claimableAt: { $gte: new Date(0) }, $expr: { $gt: ['$claimableAt', '$$NOW'] } } },
      { $sort: { claimableAt: 1 } },
      { $limit: countLimit },
      { $group: { _id: null, seen: { $sum: 1 }, count: { $sum: { $cond: [{ $eq: ['$lease', null] }, 1, 0] } } } },
    ])
    .option({ maxTimeMS, hint: 'due' });
  return { count: found?.count ?? 0, isMore: found?.seen === countLimit };
}
