import { durableCollection, inOneBatch } from '../collection.ts';
import type { EventStanding, EventStandings } from '../events/history.ts';
import { eventState } from './event-state.ts';
import type { DeliveryModel, DeliveryState } from './model.ts';
import { createPresentTypes } from './present-types.ts';

/** Deliveries that the first look for events in a state reads; each further one reads four times as many. */
const fewest = 50;
/** Deliveries that one list looks at: beyond, it says how far it has come. */
const mostSeen = 2_000;

/** The part of an id that is the time; an event and its deliveries have the same. */
const timeOf = (id: string) => id.slice(4, 14);

function toStanding(deliveries: EventStanding['deliveries']): EventStanding {
  const present = Object.entries(deliveries).filter(([, count]) => count > 0);
  return { state: eventState(present.map(([state]) => ({ state: state as DeliveryState }))), deliveries };
}

interface Look {
  readonly found: readonly { readonly _id: string; readonly eventId: string }[];
  /** The millisecond that all is found down to; `undefined` when there is no more. */
  readonly time: string | undefined;
}

/** How events stand, told from their deliveries. */
export function createEventStandings(model: DeliveryModel): EventStandings {
  const collection = durableCollection(model);
  const presentTypes = createPresentTypes(model);

  async function of(eventIds: readonly string[]): Promise<Map<string, EventStanding>> {
    const groups = await collection
      .aggregate<{ _id: { eventId: string; state: DeliveryState }; count: number }>(
        [
          { $match: { eventId: { $in: [...eventIds] } } },
          { $group: { _id: { eventId: '$eventId', state: '$state' }, count: { $sum: 1 } } },
        ],
        { hint: 'eventDeliveries', ...inOneBatch },
      )
      .toArray();
    const counts = new Map<string, Record<DeliveryState, number>>();
    for (const { _id, count } of groups) {
      const known = counts.get(_id.eventId) ?? { pending: 0, delivered: 0, failed: 0, canceled: 0 };
      counts.set(_id.eventId, { ...known, [_id.state]: count });
    }
    return new Map([...counts].map(([id, deliveries]) => [id, toStanding(deliveries)]));
  }

  /** Reads so many deliveries below an id, newest first, as whole milliseconds: ids within one are in no order. */
  async function look(filter: object, below: string | undefined, count: number): Promise<Look> {
    const options = { projection: { eventId: 1 }, hint: 'ofUser', ...inOneBatch } as const;
    const range = below === undefined ? {} : { _id: { $lt: below } };
    const found = await collection
      .find({ ...filter, ...range }, options)
      .sort({ _id: -1 })
      .limit(count)
      .toArray();
    if (found.length < count) return { found, time: undefined };
    const last = timeOf(found.at(-1)?._id ?? '');
    const whole = found.filter(({ _id }) => timeOf(_id) !== last);
    const oldest = whole.at(-1);
    if (oldest) return { found: whole, time: timeOf(oldest._id) };
    // one millisecond has more than that
    const within = { _id: { $gte: `dlv_${last}`, $lt: `dlv_${last}~` } };
    return { found: await collection.find({ ...filter, ...within }, options).toArray(), time: last };
  }

  return {
    of,
    async list(userId, { state, type, after, limit }) {
      const types = type === undefined ? await presentTypes({ userId }) : [type];
      const filter = { userId, type: { $in: types }, state: { $eq: state } };
      const listed: string[] = [];
      let below = after && `dlv_${timeOf(after)}~`;
      let time: string | undefined;
      for (let seen = 0, count = Math.max(limit, fewest); seen < mostSeen; seen += count, count *= 4) {
        const part = await look(filter, below, Math.min(count, mostSeen - seen));
        const ids = [...new Set(part.found.map(({ eventId }) => eventId))];
        const standings = await of(ids.filter((id) => after === undefined || id < after));
        const standing = ids.filter((id) => standings.get(id)?.state === state);
        listed.push(...standing.sort().reverse());
        time = part.time;
        if (time === undefined || listed.length >= limit) return { ids: listed.slice(0, limit) };
        below = `dlv_${time}`;
      }
      return { ids: listed, lookedTo: `evt_${time}${'0'.repeat(16)}` };
    },
  };
}
