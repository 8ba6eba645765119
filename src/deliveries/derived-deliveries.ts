import type { EventStatus, EventStatuses, EventStatusPage, FannedOut } from '../events/history.ts';
import type { EventDocument, EventModel } from '../events/model.ts';
import type { StoredEvent } from '../events/outbox.ts';
import { firstId, firstOfSameTime, isId, timeOf } from '../ids.ts';
import { createBatcher } from '../mongo/batcher.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { findConfirmed } from '../mongo/confirmed-reads.ts';
import { firstDelivery } from './fan-out.ts';
import {
  createPresentTypes,
  type DeliveryPage,
  type DerivedDeliveries,
  type IdRange,
  type ShownDelivery,
} from './history.ts';
import { type DeliveryDocument, type DeliveryModel, type DeliveryState, deliveryStates } from './model.ts';
import { attemptsAllowed } from './retry.ts';

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

/** Documents that one list reads at most; then it returns where the next one begins. */
const maxSeen = 2_000;

interface NewestFirst {
  readonly sort: { readonly _id: -1 };
  readonly limit?: number;
  readonly batchSize: number;
}

interface PageBelow<T> {
  /** Newest first. */
  readonly found: T[];
  /** All documents from this millisecond on are found; '' if there are no older ones. */
  readonly time: string;
}

/**
 * Reads about `count` documents, newest first, in whole milliseconds: an event and its deliveries have the same time in their
 * ids, but a different order within a millisecond. If the newest millisecond alone has more, reads all of it.
 * @param read uses an index in the order of ids
 */
async function readPageBelow<T extends { readonly _id: string }>(
  read: (ids: IdRange, options: NewestFirst) => Promise<T[]>,
  range: IdRange,
  count: number,
): Promise<PageBelow<T>> {
  const newestFirst = { sort: { _id: -1 }, ...inOneBatch } as const;
  const documents = await read(range, { ...newestFirst, limit: count });
  const last = documents[count - 1];
  if (!last) return { found: documents, time: '' };
  const time = timeOf(last._id);
  const whole = documents.filter(({ _id }) => timeOf(_id) !== time);
  const oldest = whole.at(-1);
  if (oldest) return { found: whole, time: timeOf(oldest._id) };
  return { found: await read({ ...range, $gte: firstOfSameTime(last._id) }, newestFirst), time };
}

/** Deliveries in the first read for events of a state; each further read has four times as many. */
const firstCount = 50;

/**
 * The state of an event, from the states of its deliveries: failed if one has failed, otherwise pending while one is pending,
 * and canceled if all are. An event without deliveries is delivered.
 */
export function eventState(deliveries: readonly { readonly state: DeliveryState }[]): DeliveryState {
  const states = new Set(deliveries.map(({ state }) => state));
  if (states.has('failed')) return 'failed';
  if (states.has('pending')) return 'pending';
  return states.size === 1 && states.has('canceled') ? 'canceled' : 'delivered';
}

function toStatus(deliveries: EventStatus['deliveries']): EventStatus {
  const present = deliveryStates.filter((state) => deliveries[state] > 0);
  return { state: eventState(present.map((state) => ({ state }))), deliveries };
}

/** The fields that tell whether each target of an event has its delivery. */
const fannedOutFields = { type: 1, targets: 1, fanOut: 1 } as const;
type PendingFanOut = FannedOut & Pick<EventDocument, 'type'>;

const none: EventStatus['deliveries'] = { pending: 0, delivered: 0, failed: 0, canceled: 0 };

/** How many deliveries of an event are in one state. */
interface StateCount {
  readonly _id: { readonly eventId: string; readonly state: DeliveryState };
  readonly count: number;
}

/** The statuses of events. A target whose delivery is not stored yet counts as pending. */
function countStates(groups: readonly StateCount[], events: readonly FannedOut[]): Map<string, EventStatus> {
  const counts = new Map<string, EventStatus['deliveries']>();
  for (const { _id, count } of groups) {
    counts.set(_id.eventId, { ...none, ...counts.get(_id.eventId), [_id.state]: count });
  }
  for (const { _id, fanOut, targets } of events) {
    if (fanOut === 'done') continue;
    const byState = counts.get(_id) ?? none;
    const stored = Object.values(byState).reduce((sum, count) => sum + count, 0);
    const unstored = Math.max(0, (targets?.length ?? 0) - stored);
    if (unstored > 0) counts.set(_id, { ...byState, pending: byState.pending + unstored });
  }
  return new Map([...counts].map(([id, deliveries]) => [id, toStatus(deliveries)]));
}

/** Reads the states of events from their deliveries. */
export function createEventStatuses(model: DeliveryModel, eventModel: EventModel): EventStatuses {
  const collection = durableCollection(model);
  const events = durableCollection(eventModel);
  const presentTypes = createPresentTypes(model);

  async function of(fannedOut: readonly FannedOut[]): Promise<Map<string, EventStatus>> {
    const groups = await collection
      .aggregate<StateCount>(
        [
          { $match: { eventId: { $in: fannedOut.map(({ _id }) => _id) } } },
          { $group: { _id: { eventId: '$eventId', state: '$state' }, count: { $sum: 1 } } },
        ],
        { hint: 'eventDeliveries', ...inOneBatch },
      )
      .toArray();
    return countStates(groups, fannedOut);
  }

  /** The newest events whose fan-out is not done. */
  async function lookForUnfinished(userId: string, { type, after, since }: EventStatusPage) {
    const fields = { projection: fannedOutFields, hint: 'userPending' } as const;
    const { found, time } = await readPageBelow(
      (_id, options) =>
        events.find<PendingFanOut>({ userId, fanOut: 'pending', _id }, { ...fields, ...options }).toArray(),
      { $gte: since ? firstId('evt', Math.max(0, since.getTime())) : 'evt_', $lt: after ?? 'evt_~' },
      maxSeen,
    );
    // with a filter by type, the database would look at all of them to find a few
    return { found: type === undefined ? found : found.filter((event) => event.type === type), time };
  }

  return {
    of,
    async list(userId, page) {
      const { state, type, after, since, limit } = page;
      const types = type === undefined ? await presentTypes({ userId }) : [type];
      const filter = { userId, type: { $in: types }, state: { $eq: state } };
      const fields = { projection: { eventId: 1 }, hint: 'ofUser' } as const;
      // read first: the query below finds what is stored in between
      const unfinished = await lookForUnfinished(userId, page);
      const unfinishedById = new Map(unfinished.found.map((event) => [event._id, event]));
      const rest = new Set(state === 'pending' ? unfinishedById.keys() : []);
      const listed: string[] = [];
      let below = `dlv_${after === undefined ? '' : timeOf(after)}~`;
      let time = '';
      for (let seen = 0, count = Math.max(limit, firstCount); seen < maxSeen; seen += count, count *= 4) {
        const part = await readPageBelow(
          (_id, options) => collection.find({ ...filter, _id }, { ...fields, ...options }).toArray(),
          { $gte: since ? firstId('dlv', Math.max(0, since.getTime())) : 'dlv_', $lt: below },
          Math.min(count, maxSeen - seen),
        );
        time = part.time;
        const waiting = [...rest].filter((id) => timeOf(id) >= part.time);
        for (const id of waiting) rest.delete(id);
        const ids = [...new Set([...part.found.map(({ eventId }) => eventId), ...waiting])];
        const candidateIds = ids.filter((id) => after === undefined || id < after);
        const statuses = await of(
          candidateIds.map((_id) => unfinishedById.get(_id) ?? { _id, targets: [], fanOut: 'done' }),
        );
        const matching = ids.filter((id) => statuses.get(id)?.state === state && !listed.includes(id));
        listed.push(...matching.sort().reverse());
        if (time === '' || listed.length >= limit) break;
        below = `dlv_${time}`;
      }
      // nothing is known below the higher of the two reads
      const lookedTo = [time, unfinished.time].sort().at(-1) as string;
      const ids = listed.filter((id) => timeOf(id) >= lookedTo).slice(0, limit);
      if (lookedTo === '' || ids.length >= limit) return { ids };
      return { ids, lookedTo: `evt_${lookedTo}${'0'.repeat(16)}` };
    },
  };
}
