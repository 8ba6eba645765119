import type { EventModel } from '../events/model.ts';
import type { DeliveryModel } from './model.ts';

/** What is due and what no process has claimed, of one kind. */
export interface Due {
  /** How many, counted up to 10,000: a count takes time with each document. */
  readonly count: number;
  /** How long the oldest has been due. Seconds. */
  readonly oldest: number;
}

/** What all processes together have to do. */
export interface BacklogSize {
  readonly deliveries: Due;
  /** Events whose deliveries have not been made. */
  readonly events: Due;
}

const countLimit = 10_000;
/** How long the database may take. Milliseconds. */
const maxTimeMS = 1_000;

/** Reads a range of an index that begins with the time from which a document may be claimed. */
async function readDue(
  model: Pick<DeliveryModel | EventModel, 'aggregate'>,
  field: string,
  hint: string,
  filter = {},
): Promise<Due> {
  const [found] = await model
    .aggregate<Due>([
      { $match: { ...filter, [field]: { $gte: new Date(0) }, $expr: { $lte: [`$${field}`, '$$NOW'] } } },
      { $sort: { [field]: 1 } },
      { $limit: countLimit },
      { $group: { _id: null, count: { $sum: 1 }, since: { $min: `$${field}` } } },
      { $project: { count: 1, oldest: { $divide: [{ $subtract: ['$$NOW', '$since'] }, 1_000] } } },
    ])
    .option({ maxTimeMS, hint });
  return { count: found?.count ?? 0, oldest: found?.oldest ?? 0 };
}

export async function readBacklogSize(deliveries: DeliveryModel, events: EventModel): Promise<BacklogSize> {
  const [dueDeliveries, dueEvents] = await Promise.all([
    readDue(deliveries, 'claimableAt', 'due'),
    readDue(events, 'fanOutAt', 'unfinishedFanOut', { fanOut: 'pending' }),
  ]);
  return { deliveries: dueDeliveries, events: dueEvents };
}
