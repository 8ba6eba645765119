import { GatewayError } from './errors.ts';
import { isId } from './ids.ts';

/** The largest page of a list, and the default. */
export const pageLimit = 100;

/** Which page of a list. */
export interface Page {
  /** 1 to 100. @default 100 */
  readonly limit?: number;
  /** The id that the page follows; what it names may be gone. */
  readonly after?: string;
}

const listed = { wh: 'a webhook', evt: 'an event', dlv: 'a delivery', rec: 'a recovery' } as const;

/**
 * @param prefix the prefix of the listed ids
 * @throws GatewayError `invalid_value`
 */
export function checkPage({ limit = pageLimit, after }: Page, prefix: keyof typeof listed): void {
  if (!Number.isInteger(limit) || limit < 1 || limit > pageLimit) {
    throw new GatewayError('invalid_value', `limit: must be a whole number from 1 to ${pageLimit}`, { param: 'limit' });
  }
  if (after !== undefined && !isId(prefix, after)) {
    throw new GatewayError('invalid_value', `after: must be the id of ${listed[prefix]}`, { param: 'after' });
  }
}
