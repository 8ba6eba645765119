import {
  type EventStatus,
  type EventStatuses,
  type EventStatusPage,
  type FannedOut,
  idRange,
  unsent,
} from '../events/history.ts';
import type { EventDocument, EventModel } from '../events/model.ts';
import { timeOf } from '../ids.ts';
import { distinctValues, durableCollection, inOneBatch } from '../mongo/collection.ts';
import { maxSeen, readPageBelow } from '../mongo/list-page.ts';
import { type Deliveries, type DeliveryModel, type DeliveryState, deliveryStates } from './model.ts';

/** Deliveries in the first read for events of a state; each further read has four times as many. */
const firstCount = 50;

/**
 * The state of an event, from the states of its deliveries: failed if one has failed, otherwise pending while one is pending,
 * and canceled if all are.
 */
function eventState(states: readonly DeliveryState[]): DeliveryState {
  if (states.includes('failed')) return 'failed';
  if (states.includes('pending')) return 'pending';
  return states.every((state) => state === 'canceled') ? 'canceled' : 'delivered';
}

/** How many deliveries of an event are in one state. */
interface StateCount {
  readonly _id: { readonly eventId: string; readonly state: DeliveryState };
  readonly count: number;
}

/** The statuses of events. A target whose delivery is not stored yet counts as pending. */
function toStatuses(groups: readonly StateCount[], events: readonly FannedOut[]): Map<string, EventStatus> {
  const counts = new Map<string, EventStatus['deliveries']>();
  for (const { _id, count } of groups) {
    counts.set(_id.eventId, { ...unsent.deliveries, ...counts.get(_id.eventId), [_id.state]: count });
  }
  for (const { _id, fanOut, targets } of events) {
    if (fanOut === 'done') continue;
    const byState = counts.get(_id) ?? unsent.deliveries;
    const stored = Object.values(byState).reduce((sum, count) => sum + count, 0);
    const unstored = Math.max(0, (targets?.length ?? 0) - stored);
    if (unstored > 0) counts.set(_id, { ...byState, pending: byState.pending + unstored });
  }
  const toStatus = (deliveries: EventStatus['deliveries']): EventStatus => {
    const state = eventState(deliveryStates.filter((present) => deliveries[present] > 0));
    return { state, deliveries };
  };
  return new Map([...counts].map(([id, deliveries]) => [id, toStatus(deliveries)]));
}

async function readStatuses(collection: Deliveries, events: readonly FannedOut[]): Promise<Map<string, EventStatus>> {
  const groups = await collection
    .aggregate<StateCount>(
      [
        { $match: { eventId: { $in: events.map(({ _id }) => _id) } } },
        { $group: { _id: { eventId: '$eventId', state: '$state' }, count: { $sum: 1 } } },
      ],
      { hint: 'eventDeliveries', ...inOneBatch },
    )
    .toArray();
  return toStatuses(groups, events);
}

type PendingFanOut = FannedOut & Pick<EventDocument, 'type'>;

/** The newest events whose fan-out is not done, by id; all of them from the millisecond `time` on. */
async function readUnfinished(
  collection: ReturnType<typeof durableCollection<EventDocument>>,
  userId: string,
  page: EventStatusPage,
) {
  const { type } = page;
  const fields = { projection: { type: 1, targets: 1, fanOut: 1 }, hint: 'userPending' } as const;
  const { found, time } = await readPageBelow(
    (_id, options) =>
      collection.find<PendingFanOut>({ userId, fanOut: 'pending', _id }, { ...fields, ...options }).toArray(),
    { $lt: 'evt_~', ...idRange('evt', page) },
    maxSeen,
  );
  // with a filter by type, the database would look at all of them to find a few
  const ofType = found.filter((event) => type === undefined || event.type === type);
  return { events: new Map(ofType.map((event) => [event._id, event])), time };
}

/** Reads the states of events from their deliveries. */
export function createEventStatuses(model: DeliveryModel, eventModel: EventModel): EventStatuses {
  const collection = durableCollection(model);
  const eventCollection = durableCollection(eventModel);

  return {
    of: (events) => readStatuses(collection, events),

    async list(userId, page) {
      const { state, type, limit } = page;
      const { $lt: before } = idRange('evt', page);
      const { $gte: oldest } = idRange('dlv', page);
      const types = type === undefined ? await distinctValues(collection, 'type', { userId }) : [type];
      const filter = { userId, type: { $in: types }, state: { $eq: state } };
      const fields = { projection: { eventId: 1 }, hint: 'ofUser' } as const;
      // read first: the query below finds what is stored in between
      const unfinished = await readUnfinished(eventCollection, userId, page);
      const rest = new Set(state === 'pending' ? unfinished.events.keys() : []);
      const listed: string[] = [];
      let below = `dlv_${before === undefined ? '' : timeOf(before)}~`;
      let time = '';
      for (let seen = 0, count = Math.max(limit, firstCount); seen < maxSeen; seen += count, count *= 4) {
        const part = await readPageBelow(
          (_id, options) => collection.find({ ...filter, _id }, { ...fields, ...options }).toArray(),
          { $gte: oldest, $lt: below },
          Math.min(count, maxSeen - seen),
        );
        time = part.time;
        const waiting = [...rest].filter((id) => timeOf(id) >= part.time);
        for (const id of waiting) rest.delete(id);
        const ids = [...new Set([...part.found.map(({ eventId }) => eventId), ...waiting])];
        const candidates = ids.filter((id) => before === undefined || id < before);
        const statuses = await readStatuses(
          collection,
          candidates.map((_id) => unfinished.events.get(_id) ?? { _id, targets: [], fanOut: 'done' }),
        );
        const matching = ids.filter((id) => statuses.get(id)?.state === state && !listed.includes(id));
        listed.push(...matching.sort().reverse());
        if (time === '' || listed.length >= limit) break;
        below = `dlv_${time}`;
      }
      // nothing is known below the higher of the two reads
      const lookedTo = time > unfinished.time ? time : unfinished.time;
      const ids = listed.filter((id) => timeOf(id) >= lookedTo).slice(0, limit);
      if (lookedTo === '' || ids.length >= limit) return { ids };
      return { ids, lookedTo: `evt_${lookedTo}${'0'.repeat(16)}` };
    },
  };
}
