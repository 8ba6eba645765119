import type { PartOfQuery, UnfinishedEvent } from '../../events/store/outbox.ts';
import { durableCollection, inOneBatch } from '../../mongo/collection.ts';
import type { AttemptRef } from '../attempt/attempt-ref.ts';
import type { DeliveryDocument, DeliveryModel } from '../model.ts';

/** A place in the order in which attempts become due. */
export interface DuePlace {
  readonly claimableAt: Date;
  readonly webhookId: string;
}

/** Webhooks that have something due, the place after which there may be more, and events that wait for their fan-out. */
export interface DuePage {
  readonly webhookIds: readonly string[];
  /** `null` when this was the end. */
  readonly next: DuePlace | null;
  readonly events: readonly UnfinishedEvent[];
}

/**
 * What may be claimed: attempts that are due and free, and those whose worker let its lease lapse. Each look is an index
 * range by the database's clock, whatever waits for later. Claims are looked for by webhook, and that is what keeps them
 * fair: however much is due for one webhook, what is due for another is found with as little effort.
 */
export interface Due {
  /**
   * Which webhooks have something due, longest due first, and in the same round trip the events that wait for their fan-out. One page looks at no more than so many deliveries.
   * @param events which ones; `null` for none
   */
  look(after: DuePlace | null, limit: number, events: PartOfQuery | null): Promise<DuePage>;
  /** So many attempts of each webhook, longest due first. */
  ofWebhooks(shares: ReadonlyMap<string, number>): Promise<AttemptRef[]>;
}

interface Group {
  readonly _id: string;
  readonly claimableAt: Date;
  readonly count: number;
}

type Found = Pick<DeliveryDocument, '_id' | 'webhookId' | 'userId' | 'attempt'>;

const isDue = { $lte: ['$claimableAt', '$$NOW'] } as const;
const beginning: DuePlace = { claimableAt: new Date(0), webhookId: '' };

/** By the index `due`: only pending deliveries have the field, and so there is nothing else to ask. */
export function dueWebhooksPipeline({ claimableAt, webhookId }: DuePlace, limit: number) {
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

/** By the index `dueOfWebhook`. */
export function dueOfWebhookPipeline(webhookId: string, limit: number) {
  return [
    { $match: { webhookId, state: 'pending', $expr: isDue } },
    { $sort: { claimableAt: 1 } },
    { $limit: limit },
    { $project: { webhookId: 1, userId: 1, attempt: 1 } },
  ];
}

function isLater(a: DuePlace, b: DuePlace): boolean {
  const difference = a.claimableAt.getTime() - b.claimableAt.getTime();
  return difference > 0 || (difference === 0 && a.webhookId > b.webhookId);
}

export function createDue(deliveries: DeliveryModel): Due {
  const collection = durableCollection(deliveries);
  const coll = collection.collectionName;

  return {
    async look(after, limit, events) {
      const beside = events ? [{ $unionWith: events }] : [];
      const found = await collection
        .aggregate<Group | UnfinishedEvent>([...dueWebhooksPipeline(after ?? beginning, limit), ...beside], inOneBatch)
        .toArray();
      const groups = found.filter((one) => 'count' in one);
      const seen = groups.reduce((sum, { count }) => sum + count, 0);
      const places = groups.map(({ _id: webhookId, claimableAt }) => ({ webhookId, claimableAt }));
      const last = places.reduce((a, b) => (isLater(b, a) ? b : a), beginning);
      return {
        webhookIds: groups.map(({ _id }) => _id),
        next: seen === limit ? last : null,
        events: found.filter((one) => 'targetCount' in one),
      };
    },
    async ofWebhooks(shares) {
      const [first, ...others] = [...shares].map(([webhookId, share]) => dueOfWebhookPipeline(webhookId, share));
      if (!first) return [];
      const unions = others.map((pipeline) => ({ $unionWith: { coll, pipeline } }));
      const found = await collection.aggregate<Found>([...first, ...unions], inOneBatch).toArray();
      return found.map(({ _id, webhookId, userId, attempt }) => ({ deliveryId: _id, webhookId, userId, attempt }));
    },
  };
}
