import { durableCollection, inOneBatch } from '../collection.ts';
import { findConfirmed } from '../confirmed-reads.ts';
import type { EventModel } from '../events/model.ts';
import type { StoredEvent } from '../events/outbox.ts';
import { createGroup } from '../group-commit.ts';
import { isId, timeOf, withoutLastTime } from '../ids.ts';
import { firstDelivery } from './fan-out.ts';
import type { DeliveryPage, ShownDelivery } from './history.ts';
import type { DeliveryDocument, DeliveryModel } from './model.ts';
import { attemptsAllowed } from './schedule.ts';

/** Deliveries that are not stored yet, derived from their event: the first attempt has not begun, or has no outcome yet. */
export interface Unstored {
  /** `null` where it is stored, or there is none. */
  find(userId: string, id: string): Promise<ShownDelivery | null>;
  /** The same of what a majority of the members has, to be asked where a usual read has found none: `null` is certain. @throws UnansweredError when it cannot be confirmed */
  findConfirmed(userId: string, id: string): Promise<ShownDelivery | null>;
  /** The event of the delivery; `null` where its fan-out is done, or there is none. */
  eventOf(userId: string, id: string): Promise<StoredEvent | null>;
  /** Newest first, at least so many of a page if there are as many. */
  list(
    userId: string,
    page: DeliveryPage,
    range: { $gte: string; $lt?: string },
    limit: number,
  ): Promise<ShownDelivery[]>;
}

const shown = (delivery: DeliveryDocument): ShownDelivery => ({ ...delivery, inFlight: false });
const withoutBody = { body: 0 } as const;
/** Deliveries in one confirming read. */
const mostConfirmed = 500;
/** How long the first of many waits for others: a flood costs the database few writes. Milliseconds. */
const confirmLinger = 50;

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
    const options = { projection: withoutBody, hint: 'userPending', ...inOneBatch } as const;
    const found = await events.find(ofItsTime({ userId, id }), options).toArray();
    return found.find(isOf(id)) ?? null;
  }

  /** A confirmation has the database write: those asked for at the same moment are one. */
  const confirmed = createGroup<Asked, StoredEvent | null>({
    most: mostConfirmed,
    linger: confirmLinger,
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

  /** The deliveries of so many events whose fan-out is not done, newest first, stored or not; and whether there are no more. */
  async function look(userId: string, page: DeliveryPage, range: { $gte: string; $lt?: string }, count: number) {
    const { webhookId, eventId, type } = page;
    const { $gte: from, $lt: before } = range;
    const filter = {
      userId,
      fanOut: 'pending' as const,
      _id: {
        $gte: `evt_${timeOf(from)}`,
        ...(before !== undefined && { $lt: `evt_${timeOf(before)}~` }),
        ...(eventId !== undefined && { $eq: eventId }),
      },
      ...(type !== undefined && { type: { $eq: type } }),
      ...(webhookId !== undefined && { targets: webhookId }),
    };
    const found = await events
      .find(filter, { projection: withoutBody, hint: 'userPending', ...inOneBatch })
      .sort({ _id: -1 })
      .limit(count)
      .toArray();
    const isAll = found.length < count;
    const whole = isAll ? found : withoutLastTime(found);
    const inRange = ({ _id }: DeliveryDocument) => _id >= from && (before === undefined || _id < before);
    return { found: whole.flatMap((event) => deliveriesOf(event, webhookId)).filter(inRange), isAll };
  }

  return {
    eventOf,
    find: async (userId, id) => show(await eventOf(userId, id), id),
    findConfirmed: async (userId, id) => show(await confirmed.add({ userId, id }), id),
    async list(userId, page, range, limit) {
      if (page.state !== undefined && page.state !== 'pending') return [];
      for (let count = limit + 1; ; count *= 4) {
        const { found, isAll } = await look(userId, page, range, count);
        const unstored = await withoutStored(found);
        if (isAll || unstored.length >= limit) {
          return unstored.sort((a, b) => (a._id < b._id ? 1 : -1)).map(shown);
        }
      }
    },
  };
}
