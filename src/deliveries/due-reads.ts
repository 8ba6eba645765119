import type { UnfinishedEvent } from '../events/outbox.ts';
import { fromNow } from '../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { type ComingAttempt, type FoundAttempt, refOf } from './claims.ts';
import type { DeliveryModel } from './model.ts';

/** A position in the order in which attempts become due. */
interface DuePosition {
  readonly claimableAt: Date;
  readonly webhookId: string;
}

interface Group {
  readonly _id: string;
  readonly claimableAt: Date;
  readonly count: number;
}

type FoundComing = FoundAttempt & Pick<ComingAttempt, 'wait'>;

/** What a look reads of one collection: a short range of an index. */
export interface PartOfLook {
  readonly coll: string;
  readonly pipeline: readonly object[];
}

interface FoundByPart {
  /** Which part has found it. */
  readonly part: number;
  readonly document: object;
}

/** Attempts that one look finds before they are due. Further ones are found when they are. */
const comingLimit = 1_000;

const isDue = { $lte: ['$claimableAt', '$$NOW'] } as const;
const beginning: DuePosition = { claimableAt: new Date(0), webhookId: '' };

/** Uses the index `due`: only pending deliveries have the field, so no other condition is needed. */
function dueWebhooksPipeline({ claimableAt, webhookId }: DuePosition, limit: number) {
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
function dueOfWebhookPipeline(webhookId: string, limit: number) {
  return [
    { $match: { webhookId, state: 'pending', $expr: isDue } },
    { $sort: { claimableAt: 1 } },
    { $limit: limit },
    { $project: { webhookId: 1, userId: 1, attempt: 1 } },
  ];
}

/**
 * Uses the index `due`. Apart from what is due already, so that a backlog of that delays nothing.
 * @param lookAhead milliseconds
 */
function comingPipeline(lookAhead: number) {
  const isComing = [{ $gt: ['$claimableAt', '$$NOW'] }, { $lte: ['$claimableAt', fromNow(lookAhead)] }];
  return [
    { $match: { claimableAt: { $gte: beginning.claimableAt }, lease: null, $expr: { $and: isComing } } },
    { $sort: { claimableAt: 1, webhookId: 1 } },
    { $limit: comingLimit },
    { $project: { webhookId: 1, userId: 1, attempt: 1, wait: { $subtract: ['$claimableAt', '$$NOW'] } } },
  ];
}

function isLater(a: DuePosition, b: DuePosition): boolean {
  const difference = a.claimableAt.getTime() - b.claimableAt.getTime();
  return difference > 0 || (difference === 0 && a.webhookId > b.webhookId);
}

export type DueAttempts = ReturnType<typeof createDueAttempts>;

/**
 * Finds the attempts that may be claimed: those that are due and free, and those whose lease has lapsed. Each read is a range of an
 * index by the database's clock, however much is due later. Attempts are read by webhook, which keeps claims fair: however
 * much is due for one webhook, the attempts of another are found just as easily.
 * @param lookAhead how soon attempts become due that are found before. Milliseconds. @default none are
 */
export function createDueAttempts(deliveries: DeliveryModel, lookAhead = 0) {
  const collection = durableCollection(deliveries);
  const coll = collection.collectionName;

  /** What each part finds, in one round trip: a command costs an idle process and its database more than what is in it. */
  async function readEach(parts: readonly PartOfLook[]): Promise<readonly (readonly object[])[]> {
    const [first = [], ...others] = parts.map(({ coll, pipeline }, part) => {
      const tagged = [...pipeline, { $replaceWith: { part: { $literal: part }, document: '$$ROOT' } }];
      return part === 0 ? tagged : [{ $unionWith: { coll, pipeline: tagged } }];
    });
    const rows = await collection.aggregate<FoundByPart>([...first, ...others.flat()], inOneBatch).toArray();
    const found = parts.map((): object[] => []);
    for (const { part, document } of rows) found[part]?.push(document);
    return found;
  }

  return {
    /**
     * Finds the webhooks that have something due, longest due first, and in the same round trip the free attempts that are due soon, and
     * the events that wait for their fan-out. `next` is the position after which there may be more; `null` at the end.
     * @param limit deliveries that one page reads
     * @param events the query for events; `null` for none
     */
    async look(after: DuePosition | null, limit: number, events: PartOfLook | null) {
      const ofDeliveries = { coll, pipeline: dueWebhooksPipeline(after ?? beginning, limit) };
      const ofComing = { coll, pipeline: comingPipeline(lookAhead) };
      const found = await readEach([ofDeliveries, ofComing, ...(events ? [events] : [])]);
      const [groups = [], coming = [], unfinished = []] = found as [Group[], FoundComing[], UnfinishedEvent[]?];
      const deliveryCount = groups.reduce((sum, { count }) => sum + count, 0);
      const places = groups.map(({ _id: webhookId, claimableAt }) => ({ webhookId, claimableAt }));
      const last = places.reduce((a, b) => (isLater(b, a) ? b : a), beginning);
      return {
        webhookIds: groups.map(({ _id }) => _id),
        next: deliveryCount === limit ? last : null,
        coming: coming.map((attempt): ComingAttempt => ({ ...refOf(attempt), wait: attempt.wait })),
        events: unfinished,
      };
    },
    /** As many attempts of each webhook as its share says, longest due first. */
    async ofWebhooks(shares: ReadonlyMap<string, number>) {
      const [first, ...others] = [...shares].map(([webhookId, share]) => dueOfWebhookPipeline(webhookId, share));
      if (!first) return [];
      const unions = others.map((pipeline) => ({ $unionWith: { coll, pipeline } }));
      const found = await collection.aggregate<FoundAttempt>([...first, ...unions], inOneBatch).toArray();
      return found.map(refOf);
    },
  };
}

/** How often a sweep goes through everything that is due, however much it is. Milliseconds. */
const fullSweepInterval = 10_000;
/** How much later a delivery may be stored than others with a later due time. Milliseconds. */
const overlap = 5_000;

/**
 * Where each page of a sweep begins. It goes through everything that is due, page by page, and then begins again. A webhook that hangs
 * has more and more old deliveries that are known to wait. If they do not fit into one page, a sweep goes through those that became due
 * lately, and only now and then through all. If a webhook hangs and has 100,000 due, a worker and mongod take 1.90 times the CPU (1.39 to
 * 3.35 in five interleaved rounds) when each sweep goes through everything; with 20,000 due, it is 2.16 times (1.10 to 2.83) when
 * it goes through all pages again and again.
 */
export function createSweepCursor(now = () => performance.now()) {
  let next: DuePosition | null = null;
  let lastPosition: DuePosition | null = null;
  let fullSweepAt = Number.NEGATIVE_INFINITY;

  return {
    /** The position after which the next page begins; `null` is the beginning. */
    begin(): DuePosition | null {
      if (next) return next;
      if (now() - fullSweepAt >= fullSweepInterval) {
        lastPosition = null;
        fullSweepAt = now();
      }
      return lastPosition && { claimableAt: new Date(lastPosition.claimableAt.getTime() - overlap), webhookId: '' };
    },
    /** Notes the position after which there is more, or with `null` that the end was reached. */
    reached(position: DuePosition | null): void {
      next = position;
      lastPosition = position ?? lastPosition;
    },
  };
}
