import { refuse } from '../errors.ts';
import { isId } from '../ids.ts';

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
