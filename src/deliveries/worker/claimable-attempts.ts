import type { PartOfQuery } from '../../events/store/outbox.ts';
import type { UnfinishedEvent } from '../../events/store/stored-event.ts';
import { durableCollection, inOneBatch } from '../../mongo/collection.ts';
import { type AttemptRef, refOf } from '../attempt/attempt-ref.ts';
import type { DeliveryDocument, DeliveryModel } from '../model.ts';

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

/**
 * Finds the attempts that may be claimed: those that are due and free, and those whose lease has lapsed. Each read is a range of an
 * index by the database's clock, however much is due later. Attempts are read by webhook, which keeps claims fair: however
 * much is due for one webhook, the attempts of another are found just as easily.
 */
export interface ClaimableAttempts {
  /**
   * Finds the webhooks that have something due, longest due first, and in the same round trip the events that wait for their
   * fan-out.
   * @param limit deliveries that one page reads
   * @param events the query for events; `null` for none
   */
  look(after: DuePosition | null, limit: number, events: PartOfQuery | null): Promise<DuePage>;
  /** As many attempts of each webhook as its share says, longest due first. */
  ofWebhooks(shares: ReadonlyMap<string, number>): Promise<AttemptRef[]>;
}

interface Group {
  readonly _id: string;
  readonly claimableAt: Date;
  readonly count: number;
}

type ClaimableAttempt = Pick<DeliveryDocument, '_id' | 'webhookId' | 'userId' | 'attempt'>;

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
    { $match: { webhookId, state: 'pending', $expr: isDue } },
    { $sort: { claimableAt: 1 } },
    { $limit: limit },
    { $project: { webhookId: 1, userId: 1, attempt: 1 } },
  ];
}

function isLater(a: DuePosition, b: DuePosition): boolean {
  const difference = a.claimableAt.getTime() - b.claimableAt.getTime();
  return difference > 0 || (difference === 0 && a.webhookId > b.webhookId);
}

export function createClaimableAttempts(deliveries: DeliveryModel): ClaimableAttempts {
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
      if (!first) return [];
      const unions = others.map((pipeline) => ({ $unionWith: { coll, pipeline } }));
      const attempts = await collection.aggregate<ClaimableAttempt>([...first, ...unions], inOneBatch).toArray();
      return attempts.map(refOf);
    },
  };
}
