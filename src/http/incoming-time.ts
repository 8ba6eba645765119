import { refuse } from '../errors.ts';

/**
 * Reads a time that fits `IncomingTime` of openapi.yaml. `Date` alone would take the 30th of February for the 2nd of March.
 * @throws GatewayError `invalid_value` for a time that does not exist
 */
export function toTime(text: string, param: string): Date {
  const time = new Date(text);
  const local = text.slice(0, 19);
  const isReal = !Number.isNaN(time.getTime()) && new Date(`${local}Z`).toISOString().slice(0, 19) === local;
  if (isReal) return time;
  refuse('invalid_value', param, 'must be a date and time that exists');
}

interface TimeRange<Time> {
  readonly since?: Time;
  readonly until?: Time;
}

/** The query of a list, with its range of times read. @throws GatewayError `invalid_value` */
export function withTimeRange<Query extends TimeRange<string>>(
  query: Query,
): Omit<Query, keyof TimeRange<string>> & TimeRange<Date> {
  const { since, until, ...same } = query;
  return {
    ...same,
    ...(since !== undefined && { since: toTime(since, 'since') }),
    ...(until !== undefined && { until: toTime(until, 'until') }),
  };
}
