import { GatewayError } from '../errors.ts';
import { checkUserId, isId } from '../ids.ts';
import { durableCollection, type EventDocument, type EventModel } from './model.ts';

/** An event as its account sees it afterwards. */
export interface PastEvent {
  /** `evt_…` */
  readonly id: string;
  readonly type: string;
  /** ISO 8601, UTC. */
  readonly created: string;
  readonly data: unknown;
  /** Whether it was a test event. */
  readonly test: boolean;
}

/** Which events, and which page of them. */
export interface EventPage {
  readonly type?: string;
  /** 1 to 100. @default 100 */
  readonly limit?: number;
  /** The id that the page follows; it need not exist any more. */
  readonly after?: string;
}

/** The events of an account, as long as they are kept. */
export interface EventHistory {
  /**
   * Newest first.
   * @throws GatewayError `invalid_value`
   */
  list(userId: string, page?: EventPage): Promise<{ readonly events: PastEvent[]; readonly hasMore: boolean }>;
  /** @throws GatewayError `event_not_found`, also for another account's */
  get(userId: string, id: string): Promise<PastEvent>;
}

const pageLimit = 100;

function checkPage(limit: number, after: string | undefined): void {
  if (!Number.isInteger(limit) || limit < 1 || limit > pageLimit) {
    throw new GatewayError('invalid_value', `limit: must be a whole number from 1 to ${pageLimit}`, { param: 'limit' });
  }
  if (after !== undefined && !isId('evt', after)) {
    throw new GatewayError('invalid_value', 'after: must be the id of an event', { param: 'after' });
  }
}

type Stored = Pick<EventDocument, '_id' | 'body' | 'test'>;

const shownFields = { body: 1, test: 1 } as const;

/** What was sent is what is shown. */
function toPastEvent({ body, test }: Stored): PastEvent {
  return { ...JSON.parse(body.toString('utf8')), test };
}

export function createEventHistory(model: EventModel): EventHistory {
  const collection = durableCollection(model);

  return {
    async list(userId, { type, limit = pageLimit, after } = {}) {
      checkUserId(userId);
      checkPage(limit, after);
      const filter = {
        userId,
        ...(type !== undefined && { type: { $eq: type } }),
        ...(after !== undefined && { _id: { $lt: after } }),
      };
      const found = await collection
        .find<Stored>(filter, { projection: shownFields })
        .sort({ _id: -1 })
        .limit(limit + 1)
        .toArray();
      return { events: found.slice(0, limit).map(toPastEvent), hasMore: found.length > limit };
    },

    async get(userId, id) {
      checkUserId(userId);
      const found = isId('evt', id)
        ? await collection.findOne<Stored>({ _id: id, userId }, { projection: shownFields })
        : null;
      if (!found) throw new GatewayError('event_not_found', `No event ${id} in this account`, { param: 'id' });
      return toPastEvent(found);
    },
  };
}
