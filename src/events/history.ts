import type { components } from '../api.d.ts';
import { notFound } from '../errors.ts';
import { checkUserId, firstId, isId } from '../ids.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { createReadConfirmed } from '../mongo/confirmed-reads.ts';
import { checkPage, checkTimes, type Page, pageLimit } from '../mongo/list-page.ts';
import type { EventDocument, EventModel } from './model.ts';

/** A published event as its account sees it. */
export interface PastEvent {
  /** `evt_…` */
  readonly id: string;
  readonly type: string;
  /** ISO 8601, UTC. */
  readonly created: string;
  readonly data: components['schemas']['EventData'];
  /** Whether it was a test event. */
  readonly test: boolean;
  /** The state of all its deliveries together; `none` if it has none. */
  readonly state: EventState;
  /** How many of its deliveries are in each state. */
  readonly deliveries: Readonly<Record<DeliveredState, number>>;
  /** Webhooks that were subscribed to it but not active. */
  readonly skipped: number;
}

type DeliveredState = 'pending' | 'delivered' | 'failed' | 'canceled';
export type EventState = DeliveredState | 'none';

/** The state of an event, from its deliveries. */
export type EventStatus = Pick<PastEvent, 'state' | 'deliveries'>;

/** Which events, and which page of them. */
export interface EventPage extends Page {
  readonly type?: string;
  readonly state?: EventState;
  /** Only events published at this moment or later. */
  readonly since?: Date;
  /** Only events published before this moment. */
  readonly until?: Date;
}

/** A page of events in one state. */
export interface EventStatusPage extends EventPage {
  readonly state: DeliveredState;
  readonly limit: number;
}

interface EventStatusList {
  readonly ids: readonly string[];
  /** The id at which the read ended before it had found enough events; there may be more after it. */
  readonly lookedTo?: string;
}

/** The fields that tell which webhooks an event goes to, and whether each of them has its delivery. */
export type FannedOut = Pick<EventDocument, '_id' | 'targets' | 'fanOut'>;

/** Reads the states of events from their deliveries. */
export interface EventStatuses {
  /** By event id, without events that have no deliveries. */
  of(events: readonly FannedOut[]): Promise<ReadonlyMap<string, EventStatus>>;
  /** An account's events in a state, newest first. Reads a bounded number of deliveries. */
  list(userId: string, page: EventStatusPage): Promise<EventStatusList>;
}

/** A page of events. */
export interface EventList {
  readonly events: PastEvent[];
  readonly hasMore: boolean;
  /** The id that the next page follows, if that is not the last event of this page. */
  readonly nextAfter?: string;
}

/** The events of an account that are still stored. */
export type EventHistory = ReturnType<typeof createEventHistory>;

type Stored = Pick<EventDocument, '_id' | 'body' | 'test' | 'targets' | 'skipped' | 'fanOut'>;

const shownFields = { body: 1, test: 1, targets: 1, skipped: 1, fanOut: 1 } as const;

/** Of an event without deliveries. */
export const unsent: EventStatus = { state: 'none', deliveries: { pending: 0, delivered: 0, failed: 0, canceled: 0 } };

/** Shows the envelope that was sent. */
function toPastEvent(event: Stored, status = unsent): PastEvent {
  const { body, test, skipped } = event;
  return { ...JSON.parse(body.toString('utf8')), test, ...status, skipped: skipped.length };
}

/** The bounds of the ids on a page of events, or of their deliveries: ids sort by the time of their event. */
export function idRange(
  prefix: 'evt' | 'dlv',
  { since, until, after }: Pick<EventPage, 'since' | 'until' | 'after'>,
): { readonly $gte: string; readonly $lt?: string } {
  const idAt = (moment: Date) => firstId(prefix, Math.max(0, moment.getTime()));
  const [below] = [after, until && idAt(until)].filter((bound) => bound !== undefined).sort();
  return { $gte: since ? idAt(since) : `${prefix}_`, ...(below !== undefined && { $lt: below }) };
}

export function createEventHistory(model: EventModel, eventStatuses: EventStatuses) {
  const collection = durableCollection(model);
  const readConfirmed = createReadConfirmed(collection);

  const find = (filter: object, options: object) =>
    collection.find<Stored>(filter, { projection: shownFields, sort: { _id: -1 }, ...options }).toArray();

  async function show(events: readonly Stored[]): Promise<PastEvent[]> {
    const statuses = await eventStatuses.of(events);
    return events.map((event) => toPastEvent(event, statuses.get(event._id)));
  }

  /** Lists events by their own fields; each such list has an index. */
  async function listStored(userId: string, page: EventPage): Promise<EventList> {
    const { type, state, limit = pageLimit } = page;
    const ofType = type !== undefined && { type: { $eq: type } };
    const unheard = state === 'none' && { targets: { $eq: [] } };
    const hint = (ofType ? 'userType' : 'user') + (unheard ? 'Unheard' : 'Events');
    const filter = { userId, ...ofType, ...unheard, _id: idRange('evt', page) };
    const stored = await find(filter, { hint, limit: limit + 1 });
    return { events: await show(stored.slice(0, limit)), hasMore: stored.length > limit };
  }

  /** Lists events by the state of their deliveries. */
  async function listByStatus(userId: string, page: EventStatusPage): Promise<EventList> {
    const { limit } = page;
    const { ids, lookedTo } = await eventStatuses.list(userId, { ...page, limit: limit + 1 });
    const shown = ids.slice(0, limit);
    const events = await show(await find({ userId, _id: { $in: shown } }, inOneBatch));
    // an event may expire before its deliveries
    const reached = ids.length > limit ? shown.at(-1) : lookedTo;
    const nextAfter = reached === events.at(-1)?.id ? undefined : reached;
    return { events, hasMore: reached !== undefined, ...(nextAfter !== undefined && { nextAfter }) };
  }

  return {
    /**
     * Newest first.
     * @throws GatewayError `invalid_value`
     */
    async list(userId: string, page: EventPage = {}): Promise<EventList> {
      const { limit = pageLimit, state, since, until } = page;
      checkUserId(userId);
      checkPage(page, 'evt');
      checkTimes({ since, until });
      if (state === undefined || state === 'none') return listStored(userId, page);
      return listByStatus(userId, { ...page, state, limit });
    },

    /** @throws GatewayError `event_not_found`, also for an event of another account */
    async get(userId: string, id: string): Promise<PastEvent> {
      checkUserId(userId);
      const read = () => collection.findOne<Stored>({ _id: id, userId }, { projection: shownFields });
      const stored = isId('evt', id) ? await readConfirmed(id, read) : null;
      const [event] = stored ? await show([stored]) : [];
      if (!event) throw notFound('event_not_found', 'event', id, 'events');
      return event;
    },
  };
}
