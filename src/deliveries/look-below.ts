import { firstOfSameTime, timeOf } from '../ids.ts';
import { inOneBatch } from '../mongo/collection.ts';

/** Documents that one list looks at: beyond, it says how far it has come. */
export const mostSeen = 2_000;

/** Bounds of ids. */
export interface IdRange {
  readonly $gte: string;
  readonly $lt?: string;
  readonly $eq?: string;
}

/** Options of a read. */
interface NewestFirst {
  readonly sort: { readonly _id: -1 };
  readonly limit?: number;
  readonly batchSize: number;
}

interface Look<T> {
  /** Newest first. */
  readonly found: T[];
  /** The millisecond that all are found down to; '' when there are no more. */
  readonly time: string;
}

/**
 * Reads so many documents, newest first, as whole milliseconds: an event and its deliveries have the same time in their ids, but within
 * a millisecond they are in different orders. Where so many are of the newest millisecond alone, reads all of it.
 * @param read by an index in the order of ids
 */
export async function lookBelow<T extends { readonly _id: string }>(
  read: (ids: IdRange, options: NewestFirst) => Promise<T[]>,
  range: IdRange,
  count: number,
): Promise<Look<T>> {
  const newestFirst = { sort: { _id: -1 }, ...inOneBatch } as const;
  const found = await read(range, { ...newestFirst, limit: count });
  const last = found[count - 1];
  if (!last) return { found, time: '' };
  const time = timeOf(last._id);
  const whole = found.filter(({ _id }) => timeOf(_id) !== time);
  const oldest = whole.at(-1);
  if (oldest) return { found: whole, time: timeOf(oldest._id) };
  return { found: await read({ ...range, $gte: firstOfSameTime(last._id) }, newestFirst), time };
}
