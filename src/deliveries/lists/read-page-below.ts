import { firstOfSameTime, timeOf } from '../../ids.ts';
import { inOneBatch } from '../../mongo/collection.ts';

/** Documents that one list reads at most; then it returns where the next one begins. */
export const maxSeen = 2_000;

export interface IdRange {
  readonly $gte: string;
  readonly $lt?: string;
  readonly $eq?: string;
}

interface NewestFirst {
  readonly sort: { readonly _id: -1 };
  readonly limit?: number;
  readonly batchSize: number;
}

interface PageBelow<T> {
  /** Newest first. */
  readonly found: T[];
  /** All documents from this millisecond on are found; '' if there are no older ones. */
  readonly time: string;
}

/**
 * Reads about `count` documents, newest first, in whole milliseconds: an event and its deliveries have the same time in their
 * ids, but a different order within a millisecond. If the newest millisecond alone has more, reads all of it.
 * @param read uses an index in the order of ids
 */
export async function readPageBelow<T extends { readonly _id: string }>(
  read: (ids: IdRange, options: NewestFirst) => Promise<T[]>,
  range: IdRange,
  count: number,
): Promise<PageBelow<T>> {
  const newestFirst = { sort: { _id: -1 }, ...inOneBatch } as const;
  const documents = await read(range, { ...newestFirst, limit: count });
  const last = documents[count - 1];
  if (!last) return { found: documents, time: '' };
  const time = timeOf(last._id);
  const whole = documents.filter(({ _id }) => timeOf(_id) !== time);
  const oldest = whole.at(-1);
  if (oldest) return { found: whole, time: timeOf(oldest._id) };
  return { found: await read({ ...range, $gte: firstOfSameTime(last._id) }, newestFirst), time };
}
