import { GatewayError } from '../errors.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { databaseUnavailable, isUnavailable } from '../mongo/unavailable.ts';
import { TimeoutError } from '../mongo/with-timeout.ts';
import type { NewEvent } from './store/stored-event.ts';

/** How long a publication waits for the database: less than a request may take, so that its response tells the result. Milliseconds. */
const longestPublication = 3_500;
/**
 * How long it may wait until its write starts, so that as much time is left for the answer. If writes started for publications
 * whose time is nearly over, a database that was too slow for a moment would answer every later one too late. Milliseconds.
 */
const longestTurn = longestPublication / 2;

/** The state of one publication. */
export interface Storing {
  /** Its writes must start before this time, by `performance.now()`. */
  readonly until: number;
  /** Set when the event is about to be stored. */
  event: NewEvent | undefined;
  /** Whether the publisher was told that nothing is stored. */
  isGivenUp: boolean;
}

/** @throws TimeoutError if it is too late: the publisher would not hear of this event, and publish it again */
export function beginToStore(storing: Storing, event: NewEvent): NewEvent {
  if (storing.isGivenUp) throw new TimeoutError('the database answered after the publisher had stopped waiting');
  storing.event = event;
  return event;
}

/** Names what the publisher needs to publish again without a second event. */
function publishUnconfirmed({ _id: eventId, idempotencyKey }: NewEvent, cause: unknown): GatewayError {
  return new GatewayError(
    'publish_unconfirmed',
    `the event ${eventId} may or may not have been stored; publish it again with idempotencyKey '${idempotencyKey}', which cannot double it`,
    { cause, headers: { 'retry-after': '1' }, details: { eventId, idempotencyKey } },
  );
}

/**
 * Limits how long a publication outside a transaction waits.
 * @param database without it, a publication waits as long as the driver waits
 * @throws GatewayError `publish_unconfirmed` if the database fails after the write has started; `database_unavailable` if it
 *   fails before, when nothing can have been stored
 */
export async function boundPublication<T>(
  database: Pick<DatabaseAccess, 'whenAvailable' | 'bound'> | undefined,
  publish: (storing: Storing) => Promise<T>,
): Promise<T> {
  await database?.whenAvailable();
  const until = database ? performance.now() + longestTurn : Number.POSITIVE_INFINITY;
  const storing: Storing = { until, event: undefined, isGivenUp: false };
  const published = publish(storing);
  try {
    return await (database?.bound(published, longestPublication) ?? published);
  } catch (error) {
    storing.isGivenUp = storing.event === undefined;
    if (!isUnavailable(error)) throw error;
    throw storing.event ? publishUnconfirmed(storing.event, error) : databaseUnavailable(error);
  }
}
