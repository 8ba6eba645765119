import type { DeliveryDocument, DeliveryModel } from '../deliveries/model.ts';
import type { EventDocument, EventModel } from '../events/model.ts';
import { durableCollection } from '../mongo/collection.ts';

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

/** Counts a range of an index that begins with the time from which a document may be claimed. Answers nothing where none is due. */
export function countDue(field: string, filter: object, limit: number) {
  return [
    { $match: { ...filter, [field]: { $gte: new Date(0) }, $expr: { $lte: [`$${field}`, '$$NOW'] } } },
    { $sort: { [field]: 1 as const } },
    { $limit: limit },
    { $group: { _id: null, count: { $sum: 1 }, since: { $min: `$${field}` } } },
    { $project: { count: 1, since: 1, oldest: { $divide: [{ $subtract: ['$$NOW', '$since'] }, 1_000] } } },
  ];
}

async function readDue(
  collection: Pick<ReturnType<typeof durableCollection>, 'aggregate'>,
  field: string,
  { hint, filter = {}, limit }: { readonly hint: string; readonly filter?: object; readonly limit: number },
): Promise<DueCount> {
  const [found] = await collection.aggregate<DueCount>(countDue(field, filter, limit), { maxTimeMS, hint }).toArray();
  return { count: found?.count ?? 0, oldest: found?.oldest ?? 0, since: found?.since ?? null };
}

export class BacklogReads {
  readonly #deliveries: ReturnType<typeof durableCollection<DeliveryDocument>>;
  readonly #events: ReturnType<typeof durableCollection<EventDocument>>;

  constructor(deliveries: DeliveryModel, events: EventModel) {
    this.#deliveries = durableCollection(deliveries);
    this.#events = durableCollection(events);
  }

  /** @param limit how many of each kind are counted */
  async size(limit = countLimit): Promise<BacklogSize> {
    const [deliveries, events] = await Promise.all([
      readDue(this.#deliveries, 'claimableAt', { hint: 'due', limit }),
      readDue(this.#events, 'fanOutAt', { hint: 'unfinishedFanOut', filter: { fanOut: 'pending' }, limit }),
    ]);
    return { deliveries, events };
  }

  /** How long the oldest delivery or event has been due that no process has claimed, in seconds; `null` where none is. Costs two entries of an index. */
  async oldestDue(): Promise<number | null> {
    const due = Object.values(await this.size(1)).filter(({ count }) => count > 0);
    return due.length > 0 ? Math.max(...due.map(({ oldest }) => oldest)) : null;
  }

  /** Counts deliveries whose next attempt is due later; claimed ones are not among them. Looks at 10,000, those that are due next. */
  async scheduled(): Promise<{ readonly count: number; readonly isMore: boolean }> {
    const [found] = await this.#deliveries
      .aggregate<{ seen: number; count: number }>(
        [
          { $match: { claimableAt: { $gte: new Date(0) }, $expr: { $gt: ['$claimableAt', '$$NOW'] } } },
          { $sort: { claimableAt: 1 } },
          { $limit: countLimit },
          { $group: { _id: null, seen: { $sum: 1 }, count: { $sum: { $cond: [{ $eq: ['$lease', null] }, 1, 0] } } } },
        ],
        { maxTimeMS, hint: 'due' },
      )
      .toArray();
    return { count: found?.count ?? 0, isMore: found?.seen === countLimit };
  }
}
