import type { EventModel } from '../events/model.ts';
import type { StoredEvent } from '../events/store/outbox.ts';
import { isId, timeOf } from '../ids.ts';
import { createBatcher } from '../mongo/batcher.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { findConfirmed } from '../mongo/confirmed-reads.ts';
import { attemptsAllowed } from './attempt/schedule.ts';
import { firstDelivery } from './fan-out/fan-out.ts';
import type { DeliveryPage, ShownDelivery } from './history.ts';
import { type IdRange, lookBelow, mostSeen } from './look-below.ts';
import type { DeliveryDocument, DeliveryModel } from './model.ts';

/** Deliveries that are not stored yet, derived from their event: the first attempt has not begun, or has no outcome yet. */
export interface Unstored {
  /** `null` where it is stored, or there is none. */
  find(userId: string, id: string): Promise<ShownDelivery | null>;
  /** The same of what a majority of the members has, to be asked where a usual read has found none: `null` is certain. @throws TimeoutError when it cannot be confirmed */
  findConfirmed(userId: string, id: string): Promise<ShownDelivery | null>;
  /** The event of the delivery; `null` where its fan-out is done, or there is none. */
  eventOf(userId: string, id: string): Promise<StoredEvent | null>;
  /** At least so many of a page if there are as many. Looks at a bounded number of events. */
  list(userId: string, page: DeliveryPage, range: IdRange, limit: number): Promise<UnstoredList>;
}

export interface UnstoredList {
  /** Newest first. */
  readonly deliveries: ShownDelivery[];
  /** The millisecond that all are found down to; '' when there are no more. */
  readonly time: string;
}

const shown = (delivery: DeliveryDocument): ShownDelivery => ({ ...delivery, inFlight: false });
const withoutBody = { body: 0 } as const;
/** How events whose fan-out is not done are read. */
const unfinished = { projection: withoutBody, hint: 'userPending' } as const;
/** Deliveries in one confirming read. */
const confirmMaxSize = 500;
/** How long the first of many waits for others: a flood costs the database few writes. Milliseconds. */
const confirmMaxDelay = 50;

/** Sorts after the events that have a delivery before this id, and before those of later milliseconds. */
function eventsBelow(deliveryId: string): string {
  const isFirst = deliveryId <= `dlv_${timeOf(deliveryId)}${'0'.repeat(16)}`;
  return `evt_${timeOf(deliveryId)}${isFirst ? '' : '~'}`;
}

/** A delivery that somebody asks for. */
interface Asked {
  readonly userId: string;
  readonly id: string;
}

export function createUnstored(
  deliveryModel: DeliveryModel,
  eventModel: EventModel,
  retryDelays: readonly number[],
): Unstored {
  const deliveries = durableCollection(deliveryModel);
  const events = durableCollection(eventModel);

  function deliveriesOf(event: StoredEvent, webhookId?: string): DeliveryDocument[] {
    try {
      const targets = webhookId === undefined ? event.targets : [webhookId];
      return targets.map((target) => firstDelivery(event, target, attemptsAllowed(retryDelays, event.test)));
    } catch {
      // a list does not fail because of a broken event, which the sweep logs
      return [];
    }
  }

  /** The events of an account that a delivery may be of. */
  const ofItsTime = ({ userId, id }: Asked) => ({
    userId,
    fanOut: 'pending' as const,
    _id: { $gte: `evt_${timeOf(id)}`, $lt: `evt_${timeOf(id)}~` },
  });
  const isOf = (id: string) => (event: StoredEvent) => deliveriesOf(event).some(({ _id }) => _id === id);

  async function eventOf(userId: string, id: string): Promise<StoredEvent | null> {
    if (!isId('dlv', id)) return null;
    const found = await events.find(ofItsTime({ userId, id }), { ...unfinished, ...inOneBatch }).toArray();
    return found.find(isOf(id)) ?? null;
  }

  /** A confirmation has the database write: those asked for at the same moment are one. */
  const confirmed = createBatcher<Asked, StoredEvent | null>({
    maxSize: confirmMaxSize,
    maxDelay: confirmMaxDelay,
    async write(asked) {
      const found = await findConfirmed(events, { $or: asked.map(ofItsTime) }, { projection: withoutBody });
      return asked.map(({ userId, id }) => found.filter((event) => event.userId === userId).find(isOf(id)) ?? null);
    },
  });

  async function withoutStored(found: readonly DeliveryDocument[]): Promise<DeliveryDocument[]> {
    if (found.length === 0) return [];
    const ids = found.map(({ _id }) => _id);
    const stored = await deliveries
      .find({ _id: { $in: ids } }, { projection: { _id: 1 }, ...inOneBatch })
      .map(({ _id }) => _id)
      .toArray();
    const known = new Set(stored);
    return found.filter(({ _id }) => !known.has(_id));
  }

  async function show(event: StoredEvent | null, id: string): Promise<ShownDelivery | null> {
    const own = event ? deliveriesOf(event).filter(({ _id }) => _id === id) : [];
    const [delivery] = await withoutStored(own);
    return delivery ? shown(delivery) : null;
  }

  /** What of these is on the page. A filter of the events themselves would have the database look at all of them for a few. */
  async function unstoredOf(found: readonly StoredEvent[], { type, webhookId }: DeliveryPage, { $gte, $lt }: IdRange) {
    const asked = found.filter(
      (event) =>
        (type === undefined || event.type === type) && (webhookId === undefined || event.targets?.includes(webhookId)),
    );
    const made = asked.flatMap((event) => deliveriesOf(event, webhookId));
    return withoutStored(made.filter(({ _id }) => _id >= $gte && ($lt === undefined || _id < $lt)));
  }

  return {
    eventOf,
    find: async (userId, id) => show(await eventOf(userId, id), id),
    findConfirmed: async (userId, id) => show(await confirmed.add({ userId, id }), id),
    async list(userId, page, range, limit) {
      if (page.state !== undefined && page.state !== 'pending') return { deliveries: [], time: '' };
      const { $gte: from, $lt: before } = range;
      const oldest = { $gte: `evt_${timeOf(from)}`, ...(page.eventId !== undefined && { $eq: page.eventId }) };
      const found: DeliveryDocument[] = [];
      let below = before === undefined ? 'evt_~' : eventsBelow(before);
      for (let seen = 0, count = limit + 1; ; seen += count, count = Math.min(count * 4, mostSeen - seen)) {
        const part = await lookBelow(
          (_id, options) => events.find({ userId, fanOut: 'pending', _id }, { ...unfinished, ...options }).toArray(),
          { ...oldest, $lt: below },
          count,
        );
        found.push(...(await unstoredOf(part.found, page, range)));
        if (part.time === '' || found.length >= limit || seen + count >= mostSeen) {
          return { deliveries: found.sort((a, b) => (a._id < b._id ? 1 : -1)).map(shown), time: part.time };
        }
        below = `evt_${part.time}`;
      }
    },
  };
}
