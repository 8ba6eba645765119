import { durableCollection } from '../collection.ts';
import type { EventStanding, EventStandings, StandingPage } from '../events/history.ts';
import { eventState } from './event-state.ts';
import type { DeliveryModel, DeliveryState } from './model.ts';
import { createPresentTypes } from './present-types.ts';

/** Deliveries read at once while events in a state are looked for. */
const batchSize = 200;

/** The part of an id that is the time; an event and its deliveries have the same. */
const timeOf = (id: string) => id.slice(4, 14);

function toStanding(deliveries: EventStanding['deliveries']): EventStanding {
  const present = Object.entries(deliveries).filter(([, count]) => count > 0);
  return { state: eventState(present.map(([state]) => ({ state: state as DeliveryState }))), deliveries };
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
        { hint: 'eventDeliveries' },
      )
      .toArray();
    const counts = new Map<string, Record<DeliveryState, number>>();
    for (const { _id, count } of groups) {
      const known = counts.get(_id.eventId) ?? { pending: 0, delivered: 0, failed: 0, canceled: 0 };
      counts.set(_id.eventId, { ...known, [_id.state]: count });
    }
    return new Map([...counts].map(([id, deliveries]) => [id, toStanding(deliveries)]));
  }

  /** At least so many events, newest first, that have a delivery in this state: whole milliseconds, for ids within one are in no order. */
  async function candidates(userId: string, { state, type, after, limit }: StandingPage): Promise<string[]> {
    const types = type === undefined ? await presentTypes({ userId }) : [type];
    const cursor = collection
      .find(
        {
          userId,
          type: { $in: types },
          state: { $eq: state },
          ...(after !== undefined && { _id: { $lt: `dlv_${timeOf(after)}~` } }),
        },
        { projection: { eventId: 1 }, hint: 'ofUser', batchSize },
      )
      .sort({ _id: -1 });
    const found = new Set<string>();
    let time = '';
    for await (const { _id, eventId } of cursor) {
      if (found.size >= limit && timeOf(_id) !== time) break;
      time = timeOf(_id);
      if (after === undefined || eventId < after) found.add(eventId);
    }
    return [...found].sort().reverse();
  }

  return {
    of,
    async list(userId, page) {
      const listed: string[] = [];
      let { after } = page;
      while (listed.length < page.limit) {
        const ids = await candidates(userId, { ...page, ...(after !== undefined && { after }) });
        const standings = await of(ids);
        listed.push(...ids.filter((id) => standings.get(id)?.state === page.state));
        if (ids.length < page.limit) break;
        after = ids.at(-1);
      }
      return listed.slice(0, page.limit);
    },
  };
}
