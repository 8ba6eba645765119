import type { EventModel } from '../../events/model.ts';
import type { StoredEvent } from '../../events/store/stored-event.ts';
import { isId, timeOf } from '../../ids.ts';
import { createBatcher } from '../../mongo/batcher.ts';
import { durableCollection, inOneBatch } from '../../mongo/collection.ts';
import { findConfirmed } from '../../mongo/confirmed-reads.ts';
import { attemptsAllowed } from '../attempt/retry-delay.ts';
import { firstDelivery } from '../fan-out/first-delivery.ts';
import type { DeliveryDocument, DeliveryModel } from '../model.ts';
import type { DeliveryPage, ShownDelivery } from './delivery-page.ts';
import { type IdRange, maxSeen, readPageBelow } from './read-page-below.ts';

/** Deliveries that are not stored yet, derived from their event: their first attempt has not begun, or has no outcome yet. */
export interface DerivedDeliveries {
  /** `null` if it is stored or does not exist. */
  find(userId: string, id: string): Promise<ShownDelivery | null>;
  /** The same by a confirmed read, after a usual read has found none: `null` is certain. @throws TimeoutError if it cannot be confirmed */
  findConfirmed(userId: string, id: string): Promise<ShownDelivery | null>;
  /** The event of the delivery; `null` if its fan-out is done or it does not exist. */
  eventOf(userId: string, id: string): Promise<StoredEvent | null>;
  /** At least `limit` deliveries of a page if there are as many. Reads a bounded number of events. */
  list(userId: string, page: DeliveryPage, range: IdRange, limit: number): Promise<DerivedList>;
}

export interface DerivedList {
  /** Newest first. */
  readonly deliveries: ShownDelivery[];
  /** All deliveries from this millisecond on are found; '' if there are no older ones. */
  readonly time: string;
}

const toShown = (delivery: DeliveryDocument): ShownDelivery => ({ ...delivery, inFlight: false });
const withoutBody = { body: 0 } as const;
/** Read options for events whose fan-out is not done. */
const pendingFanOuts = { projection: withoutBody, hint: 'userPending' } as const;
/** Deliveries in one confirming read. */
const confirmMaxSize = 500;
/** A confirmation makes the database write; waiting for others keeps a flood of them cheap. Milliseconds. */
const confirmMaxDelay = 50;

/** Sorts after the events that have a delivery before this id, and before those of later milliseconds. */
function eventsBelow(deliveryId: string): string {
  const isFirst = deliveryId <= `dlv_${timeOf(deliveryId)}${'0'.repeat(16)}`;
  return `evt_${timeOf(deliveryId)}${isFirst ? '' : '~'}`;
}

/** A delivery that a caller asks for. */
interface DeliveryKey {
  readonly userId: string;
  readonly id: string;
}

/** Finds the events that the delivery may belong to. */
const sameTimeFilter = ({ userId, id }: DeliveryKey) => ({
  userId,
  fanOut: 'pending' as const,
  _id: { $gte: `evt_${timeOf(id)}`, $lt: `evt_${timeOf(id)}~` },
});

type Collection = ReturnType<typeof durableCollection<DeliveryDocument>>;

async function withoutStored(
  deliveries: Collection,
  derived: readonly DeliveryDocument[],
): Promise<DeliveryDocument[]> {
  if (derived.length === 0) return [];
  const ids = derived.map(({ _id }) => _id);
  const stored = await deliveries
    .find({ _id: { $in: ids } }, { projection: { _id: 1 }, ...inOneBatch })
    .map(({ _id }) => _id)
    .toArray();
  const storedIds = new Set(stored);
  return derived.filter(({ _id }) => !storedIds.has(_id));
}

export function createDerivedDeliveries(
  deliveryModel: DeliveryModel,
  eventModel: EventModel,
  retryDelays: readonly number[],
): DerivedDeliveries {
  const deliveries = durableCollection(deliveryModel);
  const events = durableCollection(eventModel);

  function deliveriesOf(event: StoredEvent, webhookId?: string): DeliveryDocument[] {
    try {
      const targets = webhookId === undefined ? event.targets : [webhookId];
      return targets.map((target) => firstDelivery(event, target, attemptsAllowed(retryDelays, event.test)));
    } catch {
      // a broken event must not fail the list; the sweep logs it
      return [];
    }
  }

  const hasDelivery = (id: string) => (event: StoredEvent) => deliveriesOf(event).some(({ _id }) => _id === id);

  async function eventOf(userId: string, id: string): Promise<StoredEvent | null> {
    if (!isId('dlv', id)) return null;
    const candidates = await events
      .find(sameTimeFilter({ userId, id }), { ...pendingFanOuts, ...inOneBatch })
      .toArray();
    return candidates.find(hasDelivery(id)) ?? null;
  }

  const confirmed = createBatcher<DeliveryKey, StoredEvent | null>({
    maxSize: confirmMaxSize,
    maxDelay: confirmMaxDelay,
    async write(keys) {
      const candidates = await findConfirmed(events, { $or: keys.map(sameTimeFilter) }, { projection: withoutBody });
      return keys.map(
        ({ userId, id }) => candidates.filter((event) => event.userId === userId).find(hasDelivery(id)) ?? null,
      );
    },
  });

  async function show(event: StoredEvent | null, id: string): Promise<ShownDelivery | null> {
    const derived = event ? deliveriesOf(event).filter(({ _id }) => _id === id) : [];
    const [delivery] = await withoutStored(deliveries, derived);
    return delivery ? toShown(delivery) : null;
  }

  /** The deliveries of these events that are on the page. If the query filtered, the database would read all events to find a few. */
  async function derivedFrom(
    pendingEvents: readonly StoredEvent[],
    { type, webhookId }: DeliveryPage,
    { $gte, $lt }: IdRange,
  ) {
    const matching = pendingEvents.filter(
      (event) =>
        (type === undefined || event.type === type) && (webhookId === undefined || event.targets?.includes(webhookId)),
    );
    const derived = matching.flatMap((event) => deliveriesOf(event, webhookId));
    return withoutStored(
      deliveries,
      derived.filter(({ _id }) => _id >= $gte && ($lt === undefined || _id < $lt)),
    );
  }

  return {
    eventOf,
    find: async (userId, id) => show(await eventOf(userId, id), id),
    findConfirmed: async (userId, id) => show(await confirmed.add({ userId, id }), id),
    async list(userId, page, range, limit) {
      if (page.state !== undefined && page.state !== 'pending') return { deliveries: [], time: '' };
      const { $gte: from, $lt: before } = range;
      const oldest = { $gte: `evt_${timeOf(from)}`, ...(page.eventId !== undefined && { $eq: page.eventId }) };
      const derived: DeliveryDocument[] = [];
      let below = before === undefined ? 'evt_~' : eventsBelow(before);
      for (let seen = 0, count = limit + 1; ; seen += count, count = Math.min(count * 4, maxSeen - seen)) {
        const part = await readPageBelow(
          (_id, options) =>
            events.find({ userId, fanOut: 'pending', _id }, { ...pendingFanOuts, ...options }).toArray(),
          { ...oldest, $lt: below },
          count,
        );
        derived.push(...(await derivedFrom(part.found, page, range)));
        if (part.time === '' || derived.length >= limit || seen + count >= maxSeen) {
          return { deliveries: derived.sort((a, b) => (a._id < b._id ? 1 : -1)).map(toShown), time: part.time };
        }
        below = `evt_${part.time}`;
      }
    },
  };
}
