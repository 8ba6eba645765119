import type { mongo } from 'mongoose';
import { refuse } from '../errors.ts';
import { checkUserId, firstOfSameTime, isId, timeOf } from '../ids.ts';
import { inOneBatch } from './collection.ts';

/** The largest page of a list, and the default. */
export const pageLimit = 100;

/** Which page of a list. */
export interface Page {
  /** 1 to 100. @default 100 */
  readonly limit?: number;
  /** The id that the page follows; what it names may be gone. */
  readonly after?: string;
}

const listed = {
  wh: 'a webhook',
  key: 'an API key',
  evt: 'an event',
  dlv: 'a delivery',
  rec: 'a recovery',
} as const;

/** @throws GatewayError `invalid_value` */
export function checkLimit(limit: number): void {
  if (Number.isInteger(limit) && limit >= 1 && limit <= pageLimit) return;
  refuse('invalid_value', 'limit', `must be a whole number from 1 to ${pageLimit}`);
}

/**
 * @param prefix the prefix of the listed ids
 * @throws GatewayError `invalid_value`
 */
export function checkPage({ limit = pageLimit, after }: Page, prefix: keyof typeof listed): void {
  checkLimit(limit);
  if (after !== undefined && !isId(prefix, after)) {
    refuse('invalid_value', 'after', `must be the id of ${listed[prefix]}`);
  }
}

/** @param times by the name of their parameter @throws GatewayError `invalid_value` for a `Date` that is no time */
export function checkTimes(times: Readonly<Record<string, Date | undefined>>): void {
  for (const [param, time] of Object.entries(times)) {
    if (time !== undefined && Number.isNaN(time.getTime())) {
      refuse('invalid_value', param, 'must be a moment in ISO 8601');
    }
  }
}

interface IdRange {
  readonly $gte: string;
  readonly $lt?: string;
  readonly $eq?: string;
}

/** Documents that one list reads at most; then it returns where the next one begins. */
export const maxSeen = 2_000;

/**
 * Reads about `count` documents, newest first, in whole milliseconds: an event and its deliveries have the same time in their
 * ids, but a different order within a millisecond. If the newest millisecond alone has more, reads all of it.
 * @param read uses an index in the order of ids
 * @returns `time`: all documents from this millisecond on are found; '' if there are no older ones
 */
export async function readPageBelow<T extends { readonly _id: string }>(
  read: (ids: IdRange, options: Pick<mongo.FindOptions, 'sort' | 'limit' | 'batchSize'>) => Promise<T[]>,
  range: IdRange,
  count: number,
): Promise<{ readonly found: T[]; readonly time: string }> {
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

/** A page of an account's documents, oldest first. @param prefix that of their ids @throws GatewayError `invalid_value` */
export async function readAccountPage<T extends { _id: string; userId: string }>(
  collection: mongo.Collection<T>,
  prefix: keyof typeof listed,
  userId: string,
  page: Page,
): Promise<{ readonly documents: mongo.WithId<T>[]; readonly hasMore: boolean }> {
  checkUserId(userId);
  checkPage(page, prefix);
  const { limit = pageLimit, after } = page;
  const filter = { userId, ...(after !== undefined && { _id: { $gt: after } }) } as mongo.Filter<T>;
  const options = { sort: { _id: 1 }, limit: limit + 1, ...inOneBatch } as const;
  const documents = await collection.find(filter, options).toArray();
  return { documents: documents.slice(0, limit), hasMore: documents.length > limit };
}
