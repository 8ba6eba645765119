import { notFound, refuse } from '../errors.ts';
import { type EventPage, idRange } from '../events/history.ts';
import type { EventModel } from '../events/model.ts';
import type { StoredEvent } from '../events/outbox.ts';
import { checkUserId, isId, timeOf } from '../ids.ts';
import { createBatcher } from '../mongo/batcher.ts';
import { distinctValues, durableCollection, inOneBatch } from '../mongo/collection.ts';
import { createReadConfirmed, findConfirmed } from '../mongo/confirmed-reads.ts';
import { checkPage, checkTimes, maxSeen, pageLimit, readPageBelow } from '../mongo/list-page.ts';
import { firstDelivery } from './fan-out.ts';
import {
  type AttemptRecord,
  type Deliveries,
  type DeliveryDocument,
  type DeliveryModel,
  type DeliveryState,
  deliveryStates,
} from './model.ts';
import { attemptsAllowed } from './retry.ts';

/** Which deliveries, and which page of them. */
export interface DeliveryPage extends Omit<EventPage, 'state'> {
  readonly webhookId?: string;
  readonly eventId?: string;
  readonly state?: DeliveryState;
}

const storedFields = {
  eventId: 1,
  webhookId: 1,
  type: 1,
  test: 1,
  state: 1,
  reason: 1,
  maxAttempts: 1,
  dueAt: 1,
  createdAt: 1,
  endedAt: 1,
} as const;

/** A delivery. The attempts have the receiver's responses only where one delivery is read. */
export type Delivery<Attempts = readonly Omit<AttemptRecord, 'response'>[]> = Pick<
  DeliveryDocument,
  keyof typeof storedFields
> & {
  /** `dlv_…` */
  readonly id: string;
  readonly attempts: Attempts;
  /** Whether an attempt is under way, by the database's clock. */
  readonly inFlight: boolean;
};

/** A delivery with the receiver's responses. */
export type ShownDelivery = Delivery<AttemptRecord[]>;

/** A page of deliveries. */
export interface DeliveryList {
  readonly deliveries: Delivery[];
  readonly hasMore: boolean;
  /** What the next page's `after` is, if that is not the id of the last delivery of this page. */
  readonly nextAfter?: string;
}

export const deliveryNotFound = (id: string) => notFound('delivery_not_found', 'delivery', id, 'deliveries');

const shownFields = {
  ...storedFields,
  _id: 0,
  id: '$_id',
  inFlight: {
    $or: [
      { $and: [{ $ne: ['$lease', null] }, { $gt: ['$claimableAt', '$$NOW'] }] },
      { $gt: [{ $ifNull: ['$manual.until', new Date(0)] }, '$$NOW'] },
    ],
  },
} as const;

const listedFields = {
  ...shownFields,
  'attempts.number': 1,
  'attempts.manual': 1,
  'attempts.startedAt': 1,
  'attempts.durationMs': 1,
  'attempts.status': 1,
  'attempts.code': 1,
} as const;

export type DeliveryHistory = ReturnType<typeof createDeliveryHistory>;

/** The deliveries of any account, while their events are stored or they are. */
export function createDeliveryHistory(model: DeliveryModel, derivedDeliveries: DerivedDeliveries) {
  const collection = durableCollection(model);
  const readConfirmed = createReadConfirmed(collection);

  return {
    /**
     * Newest first.
     * @throws GatewayError `invalid_value`
     */
    async list(userId: string, page: DeliveryPage = {}): Promise<DeliveryList> {
      checkUserId(userId);
      checkDeliveryPage(page);
      const { limit = pageLimit } = page;
      // read first: the queries find what is stored in between
      const [derived, queries] = await Promise.all([
        derivedDeliveries.list(userId, page, limit + 1),
        queriesFor(collection, userId, page),
      ]);
      const options = { projection: listedFields, sort: { _id: -1 }, limit: limit + 1 } as const;
      const answers = await Promise.all(
        queries.map(({ filter, hint }) => collection.find<Delivery>(filter, { ...options, hint }).toArray()),
      );
      const stored = answers.flat();
      const storedIds = new Set(stored.map(({ id }) => id));
      const { time } = derived;
      const deliveries = [...stored, ...derived.deliveries.filter(({ id }) => !storedIds.has(id))]
        // below this time, deliveries that are not stored yet may be missing
        .filter(({ id }) => timeOf(id) >= time)
        .sort((a, b) => (a.id < b.id ? 1 : -1));
      const hasMore = deliveries.length > limit;
      if (hasMore || time === '') return { deliveries: deliveries.slice(0, limit), hasMore };
      return { deliveries, hasMore: true, nextAfter: `dlv_${time}${'0'.repeat(16)}` };
    },

    /** @throws GatewayError `delivery_not_found`, also for a delivery of another account */
    async get(userId: string, id: string): Promise<ShownDelivery> {
      checkUserId(userId);
      if (!isId('dlv', id)) throw deliveryNotFound(id);
      const projection = { ...shownFields, attempts: 1 };
      const readStored = () => collection.findOne<ShownDelivery>({ _id: id, userId }, { projection });
      const read = async () => {
        const stored = await readStored();
        if (stored) return stored;
        const derived = await derivedDeliveries.find(userId, id);
        // it may have been stored in between
        return (await readStored()) ?? derived;
      };
      const delivery = (await readConfirmed(id, read)) ?? (await derivedDeliveries.findConfirmed(userId, id));
      if (!delivery) throw deliveryNotFound(id);
      return delivery;
    },
  };
}

/** @throws GatewayError `invalid_value` */
function checkDeliveryPage(page: DeliveryPage): void {
  const { webhookId, eventId, since, until } = page;
  checkPage(page, 'dlv');
  if (webhookId !== undefined && !isId('wh', webhookId)) {
    refuse('invalid_value', 'webhook_id', 'must be the id of a webhook');
  }
  if (eventId !== undefined && !isId('evt', eventId)) refuse('invalid_value', 'event_id', 'must be the id of an event');
  checkTimes({ since, until });
}

/** MongoDB merges this many ranges at most; it would sort more of them in memory (internalQueryMaxScansToExplode). */
const maxRanges = 200;

/**
 * The queries whose results together are a page: one, unless there are unusually many types. The indexes have owner, type and
 * state before the id. If a query names all types and states, MongoDB reads that many ranges of the index at once and merges
 * them by id, so every filter finds its page in the index. This way one index for accounts and one for webhooks serve every
 * combination; each index costs writes.
 */
async function queriesFor(
  collection: Deliveries,
  userId: string,
  page: DeliveryPage,
): Promise<{ filter: object; hint: string }[]> {
  const { webhookId, eventId, type, state } = page;
  const common = { userId, _id: idRange('dlv', page), ...(webhookId !== undefined && { webhookId }) };
  const states = state === undefined ? deliveryStates : [state];
  if (eventId !== undefined) {
    const filter = { ...common, eventId, state: { $in: [...states] }, ...(type !== undefined && { type }) };
    return [{ filter, hint: 'eventDeliveries' }];
  }
  const owner = webhookId === undefined ? { userId } : { webhookId };
  // skips through the index, one step for each type
  const types = type === undefined ? await distinctValues(collection, 'type', owner) : [type];
  const groups = types.length * states.length > maxRanges ? states.map((single) => [single]) : [states];
  const hint = webhookId === undefined ? 'ofUser' : 'ofWebhook';
  return groups.map((group) => ({ filter: { ...common, type: { $in: types }, state: { $in: [...group] } }, hint }));
}

/** Read options for events whose fan-out is not done. */
const pendingFanOuts = { projection: { body: 0 }, hint: 'userPending' } as const;
/** Deliveries in one confirming read. */
const confirmMaxSize = 500;
/** A confirmation makes the database write; waiting for others keeps a flood of them cheap. Milliseconds. */
const confirmMaxDelay = 50;

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

/** Sorts after the events that have a delivery before this id, and before those of later milliseconds. */
function eventsBelow(deliveryId: string): string {
  const isFirst = deliveryId <= `dlv_${timeOf(deliveryId)}${'0'.repeat(16)}`;
  return `evt_${timeOf(deliveryId)}${isFirst ? '' : '~'}`;
}

/** @param webhookId the only target of interest */
function deliveriesOf(event: StoredEvent, retryDelays: readonly number[], webhookId?: string): DeliveryDocument[] {
  try {
    const targets = event.targets.filter((target) => webhookId === undefined || target === webhookId);
    return targets.map((target) => firstDelivery(event, target, attemptsAllowed(retryDelays, event.test)));
  } catch {
    // a broken event must not fail the list; the sweep logs it
    return [];
  }
}

const toShown = ({ _id: id, ...delivery }: DeliveryDocument): ShownDelivery => ({ id, ...delivery, inFlight: false });

/** The delivery, if one of these events has it. */
function derive(
  candidates: readonly StoredEvent[],
  { userId, id }: DeliveryKey,
  retryDelays: readonly number[],
): ShownDelivery | null {
  for (const event of candidates) {
    const derived = event.userId === userId && deliveriesOf(event, retryDelays).find(({ _id }) => _id === id);
    if (derived) return toShown(derived);
  }
  return null;
}

/** Those of them that are not stored. */
async function withoutStored(collection: Deliveries, derived: readonly DeliveryDocument[]): Promise<ShownDelivery[]> {
  if (derived.length === 0) return [];
  const ids = derived.map(({ _id }) => _id);
  const stored = await collection
    .find({ _id: { $in: ids } }, { projection: { _id: 1 }, ...inOneBatch })
    .map(({ _id }) => _id)
    .toArray();
  const storedIds = new Set(stored);
  return derived.filter(({ _id }) => !storedIds.has(_id)).map(toShown);
}

/** Deliveries that are not stored yet, derived from their event: their first attempt has not begun, or has no outcome yet. */
export type DerivedDeliveries = ReturnType<typeof createDerivedDeliveries>;

export function createDerivedDeliveries(
  deliveryModel: DeliveryModel,
  eventModel: EventModel,
  retryDelays: readonly number[],
) {
  const collection = durableCollection(deliveryModel);
  const events = durableCollection(eventModel);

  const confirmed = createBatcher<DeliveryKey, ShownDelivery | null>({
    maxSize: confirmMaxSize,
    maxDelay: confirmMaxDelay,
    async write(keys) {
      const { projection } = pendingFanOuts;
      const candidates = await findConfirmed(events, { $or: keys.map(sameTimeFilter) }, { projection });
      return keys.map((key) => derive(candidates, key, retryDelays));
    },
  });

  return {
    /** `null` if the fan-out of its event is done, or it does not exist. It may be stored. */
    async find(userId: string, id: string): Promise<ShownDelivery | null> {
      const key = { userId, id };
      const candidates = await events.find(sameTimeFilter(key), { ...pendingFanOuts, ...inOneBatch }).toArray();
      return derive(candidates, key, retryDelays);
    },

    /** The same by a confirmed read: `null` is certain. @throws TimeoutError if it cannot be confirmed */
    findConfirmed: (userId: string, id: string) => confirmed.add({ userId, id }),

    /**
     * At least `limit` deliveries of a page if there are as many. Reads a bounded number of events: all deliveries from the
     * millisecond `time` on are found; '' if there are no older ones.
     */
    async list(userId: string, page: DeliveryPage, limit: number) {
      const { state, type, webhookId, eventId } = page;
      const deliveries: ShownDelivery[] = [];
      if (state !== undefined && state !== 'pending') return { deliveries, time: '' };
      const { $gte: from, $lt: before } = idRange('dlv', page);
      const oldest = { $gte: `evt_${timeOf(from)}`, ...(eventId !== undefined && { $eq: eventId }) };
      let below = before === undefined ? 'evt_~' : eventsBelow(before);
      for (let seen = 0, count = limit + 1; ; seen += count, count = Math.min(count * 4, maxSeen - seen)) {
        const { found, time } = await readPageBelow(
          (_id, options) =>
            events.find({ userId, fanOut: 'pending', _id }, { ...pendingFanOuts, ...options }).toArray(),
          { ...oldest, $lt: below },
          count,
        );
        // if the query filtered, the database would read all events to find a few
        const derived = found
          .filter((event) => type === undefined || event.type === type)
          .flatMap((event) => deliveriesOf(event, retryDelays, webhookId))
          .filter(({ _id }) => _id >= from && (before === undefined || _id < before));
        deliveries.push(...(await withoutStored(collection, derived)));
        if (time === '' || deliveries.length >= limit || seen + count >= maxSeen) return { deliveries, time };
        below = `evt_${time}`;
      }
    },
  };
}
