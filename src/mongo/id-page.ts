import mongoose from 'mongoose';
import { GatewayError } from '../errors.ts';
import { type IdPrefix, isId } from '../ids.ts';

/** The largest page, and the default. */
const pageLimit = 100;

/** Which page of a list in the order of ids. */
export interface IdPage {
  readonly limit: number;
  /** The id that the page follows; `undefined` for the first page. */
  readonly after: string | undefined;
}

/**
 * Checks a page, and fills in the default.
 * @param prefix of the ids in the list
 * @param item what the list has, for messages: `a webhook`
 * @throws GatewayError `invalid_value` for a limit outside 1 to 100, or an `after` that is no id of the list
 */
export function toIdPage({ limit = pageLimit, after }: Partial<IdPage>, prefix: IdPrefix, item: string): IdPage {
  if (!Number.isInteger(limit) || limit < 1 || limit > pageLimit) {
    throw new GatewayError('invalid_value', `limit: must be a whole number from 1 to ${pageLimit}`, { param: 'limit' });
  }
  if (after !== undefined && !isId(prefix, after)) {
    throw new GatewayError('invalid_value', `after: must be the id of ${item}`, { param: 'after' });
  }
  return { limit, after };
}

/** Matches an account's documents that follow `after`. It is marked as trusted for hosts that switch `sanitizeFilter` on. */
export function inAccountAfter(userId: string, after: string | undefined) {
  return after === undefined ? { userId } : { userId, _id: mongoose.trusted({ $gt: after }) };
}
