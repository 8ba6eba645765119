import type { ClientSession } from 'mongoose';
import { checkUserId, isId } from '../ids.ts';
import { createBatcher } from '../mongo/batcher.ts';
import { durableCollection } from '../mongo/collection.ts';
import { findAllConfirmed, findConfirmed } from '../mongo/confirmed-reads.ts';
import type { WebhookDocument, WebhookModel, Webhooks } from './model.ts';
import { passes } from './optional-fields.ts';
import type { Secrets } from './secrets.ts';
import {
  type AddressedEvent,
  type DeliveryTarget,
  type ReadSubscribers,
  type Subscribers,
  type TargetLookUp,
  toWebhook,
} from './webhook.ts';

type SubscriberQuery = Pick<AddressedEvent, 'userId' | 'type'>;
type Subscriber = Pick<WebhookDocument, '_id' | 'active'> & { readonly filters?: string | null };

interface Found {
  readonly subscribers: readonly Subscriber[];
  readonly whole: ReadonlyMap<string, WebhookDocument>;
}

/** Look-ups in one query. */
const maxSize = 500;
/** Subscribers that a look-up reads whole, for the first attempts that begin at once: a large fan-out stays small in memory. */
const maxWhole = 50;
const concurrency = 2;

const keyOf = ({ userId, type }: SubscriberQuery) => `${type} ${userId}`;

/** The subscribers whose filters the event passes. It is parsed only if one has filters. */
function toSubscribers(found: readonly Subscriber[], { body }: AddressedEvent): Subscribers {
  const isFiltered = found.some(({ filters }) => typeof filters === 'string');
  const event: unknown = isFiltered && JSON.parse(body.toString());
  const passed = found.filter(({ filters }) => typeof filters !== 'string' || passes(JSON.parse(filters), event));
  return {
    targets: passed.filter(({ active }) => active === true).map(({ _id }) => _id),
    skipped: passed.filter(({ active }) => active === false).map(({ _id }) => _id),
  };
}

/** Reads only the index. */
function find(webhooks: Webhooks, { userId, type }: SubscriberQuery, session?: ClientSession): Promise<Subscriber[]> {
  const options = { projection: { active: 1, filters: 1 }, sort: { _id: 1 }, ...(session && { session }) } as const;
  return webhooks.find({ userId, events: type }, options).toArray();
}

/** Reads few subscribers whole: that saves their first attempts a read each. Many are read by the index alone. */
async function findWhole(webhooks: Webhooks, query: SubscriberQuery): Promise<Found> {
  const { userId, type } = query;
  const found = await webhooks.find({ userId, events: type }, { sort: { _id: 1 }, limit: maxWhole + 1 }).toArray();
  if (found.length > maxWhole) return { subscribers: await find(webhooks, query), whole: new Map() };
  return { subscribers: found, whole: new Map(found.map((webhook) => [webhook._id, webhook])) };
}

/** The subscribers of each query, by one confirmed read. */
async function findEachConfirmed(webhooks: Webhooks, queries: readonly SubscriberQuery[]) {
  const distinct = new Map(queries.map((query) => [keyOf(query), { userId: query.userId, events: query.type }]));
  const projection = { userId: 1, events: 1, active: 1, filters: 1 };
  const stored = await findConfirmed(webhooks, { $or: [...distinct.values()] }, { projection, sort: { _id: 1 } });
  const byKey = new Map<string, typeof stored>([...distinct.keys()].map((key) => [key, []]));
  for (const webhook of stored) {
    for (const type of webhook.events) byKey.get(keyOf({ userId: webhook.userId, type }))?.push(webhook);
  }
  return queries.map((query) => byKey.get(keyOf(query)) ?? []);
}

/** How long subscribers are remembered, from the moment their look-up began. Milliseconds. */
const rememberedFor = 10_000;
/** What all that is remembered may weigh. Bytes. */
const weightLimit = 4 * 1024 * 1024;
/** The weight of one type of an account, and of each of its subscribers without filters. Bytes. */
const entryWeight = 1_024;
const subscriberWeight = 128;

/**
 * The subscribers that this process has found lately. A publication is written with them while it looks again, and corrected if they have
 * changed: so what is remembered may be wrong, and only saves time.
 */
class RecentSubscribers {
  /** The oldest first. */
  readonly #entries = new Map<
    string,
    { readonly subscribers: readonly Subscriber[]; readonly since: number; readonly weight: number }
  >();
  #weight = 0;

  get(key: string): readonly Subscriber[] | undefined {
    const entry = this.#entries.get(key);
    return entry && isRecent(entry.since) ? entry.subscribers : undefined;
  }

  set(key: string, found: readonly Subscriber[], since: number): void {
    this.delete(key);
    // of webhooks that were read whole, no more than this
    const subscribers = found.map(({ _id, active, filters }) => ({
      _id,
      active,
      ...(typeof filters === 'string' && { filters }),
    }));
    const filtersWeight = subscribers.reduce((sum, { filters = '' }) => sum + 2 * filters.length, 0);
    const weight = entryWeight + subscribers.length * subscriberWeight + filtersWeight;
    this.#entries.set(key, { subscribers, since, weight });
    this.#weight += weight;
    for (const [oldest, entry] of this.#entries) {
      if (this.#weight <= weightLimit && isRecent(entry.since)) break;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#weight -= entry.weight;
  }
}

const isRecent = (since: number) => performance.now() - since < rememberedFor;

/** Reads webhooks by their ids, those of the same moment together; one that is not found is `null`. */
function createReadEach(read: (ids: string[]) => Promise<ReadonlyMap<string, WebhookDocument>>, concurrency = 1) {
  return createBatcher<string, WebhookDocument | null>({
    maxSize,
    concurrency,
    async write(ids) {
      const byId = await read([...new Set(ids)]);
      return ids.map((id) => byId.get(id) ?? null);
    },
  });
}

/**
 * The reads of webhooks for publications and deliveries. Calls at the same moment share a query. What a promise resolves to is read after the
 * call, so it shows every webhook that was created, paused or deleted before.
 */
export function createSubscriberLookup(model: WebhookModel) {
  const webhooks = durableCollection(model);
  const recent = new RecentSubscribers();

  async function findNow(query: SubscriberQuery): Promise<Found> {
    const since = performance.now();
    const found = await findWhole(webhooks, query);
    recent.set(keyOf(query), found.subscribers, since);
    return found;
  }

  const lookUps = createBatcher<SubscriberQuery, Found>({
    maxSize,
    concurrency,
    write(queries) {
      const distinct = new Map(queries.map((query) => [keyOf(query), query]));
      const found = new Map([...distinct].map(([key, query]) => [key, findNow(query)]));
      return Promise.all(queries.map((query) => found.get(keyOf(query)) as Promise<Found>));
    },
  });

  const confirmedLookUps = createBatcher<SubscriberQuery, readonly Subscriber[]>({
    maxSize,
    write: (queries) => findEachConfirmed(webhooks, queries),
  });

  const documents = createReadEach((ids) => findAllConfirmed(webhooks, ids), concurrency);
  const confirmedDocuments = createReadEach(async (ids) => {
    const stored = await findConfirmed(webhooks, { _id: { $in: ids } });
    return new Map(stored.map((webhook) => [webhook._id, webhook]));
  });

  return {
    /** The webhooks subscribed to an event whose filters it passes, with those that were read whole by their ids. */
    async subscribers(event: AddressedEvent) {
      const { subscribers, whole } = await lookUps.add(event);
      return { whole, ...toSubscribers(subscribers, event) };
    },
    /** The same by the last look-up for the type, if that began within the last 10 s; otherwise `undefined`. */
    recentSubscribers(event: AddressedEvent): Subscribers | undefined {
      const subscribers = recent.get(keyOf(event));
      return subscribers && toSubscribers(subscribers, event);
    },
    /** From now on the last look-up for the type counts no more. */
    forget: (query: SubscriberQuery) => recent.delete(keyOf(query)),
    /** The same in a transaction, by a read of the index alone. */
    async subscribersIn(session: ClientSession, event: AddressedEvent) {
      return toSubscribers(await find(webhooks, event, session), event);
    },
    /** The same by a confirmed read. @throws TimeoutError if the database does not confirm it */
    async confirmedSubscribers(event: AddressedEvent) {
      return toSubscribers(await confirmedLookUps.add(event), event);
    },
    /** `null` if it is confirmed to be gone. */
    byId: documents.add,
    /** The same by a confirmed read: what it finds is certain, too. */
    confirmedById: confirmedDocuments.add,
  };
}

/** Makes the reads of webhooks that publications and deliveries need. @param catalogueTypes the known event types */
export function createWebhooksForDeliveries(
  webhooks: WebhookModel,
  secrets: Secrets,
  catalogueTypes: ReadonlySet<string>,
) {
  const lookup = createSubscriberLookup(webhooks);

  function opened(document: WebhookDocument): DeliveryTarget {
    const { createdAt: _, ...webhook } = toWebhook(document);
    return { ...webhook, ...secrets.open(document) };
  }

  /** @throws GatewayError `invalid_value` if it is no account */
  function isAddressed({ userId, type }: AddressedEvent): boolean {
    checkUserId(userId);
    return catalogueTypes.has(type);
  }

  const forDelivery: TargetLookUp = async (id, suffices = () => true) => {
    const document = isId('wh', id) ? await lookup.byId(id) : null;
    if (!document) return null;
    const webhook = opened(document);
    if (suffices(webhook)) return webhook;
    const confirmed = await lookup.confirmedById(id);
    return confirmed && opened(confirmed);
  };

  return {
    /** The webhooks that the event goes to, in one look-up. */
    async subscribers(event: AddressedEvent): Promise<ReadSubscribers> {
      const readAt = performance.now();
      if (!isAddressed(event)) return { targets: [], skipped: [], target: () => undefined, readAt };
      const { targets, skipped, whole } = await lookup.subscribers(event);
      const target = (id: string) => {
        const document = whole.get(id);
        try {
          return document && opened(document);
        } catch {
          // its attempt reads it again, and reports what is wrong with it
          return undefined;
        }
      };
      return { targets, skipped, target, readAt };
    },
    recentSubscribers: lookup.recentSubscribers,
    /** Call it when this process has changed a webhook of the account. */
    forgetSubscribers(userId: string): void {
      for (const type of catalogueTypes) lookup.forget({ userId, type });
    },
    /** The same in a transaction. */
    async subscribersIn(session: ClientSession, event: AddressedEvent): Promise<Subscribers> {
      return isAddressed(event) ? lookup.subscribersIn(session, event) : { targets: [], skipped: [] };
    },
    confirmedSubscribers: lookup.confirmedSubscribers,
    forDelivery,
    /** The URL of a webhook of any account, also where its secret cannot be opened; `null` if it is gone. */
    urlOf: async (id: string): Promise<string | null> =>
      isId('wh', id) ? ((await lookup.byId(id))?.url ?? null) : null,
  };
}
