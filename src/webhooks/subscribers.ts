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
/**
 * How long the next look-up waits for others where the one before served several events. The inserts that follow are shared too: 16
 * publishers cost sender and MongoDB 0.87 times the CPU (0.7 where nothing is delivered), at the same rate; 3 ms cost a tenth of the rate.
 * Milliseconds.
 */
const maxDelay = 2;

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
  const stored = await findConfirmed(webhooks, { $or: [...distinct.values()] }, { projection });
  const byKey = new Map<string, typeof stored>([...distinct.keys()].map((key) => [key, []]));
  for (const webhook of stored) {
    for (const type of webhook.events) byKey.get(keyOf({ userId: webhook.userId, type }))?.push(webhook);
  }
  return queries.map((query) => byKey.get(keyOf(query)) ?? []);
}

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
 * The reads of webhooks for publications and deliveries. Calls at the same moment share a query. Each result is read after the call, so it shows
 * every webhook that was created, paused or deleted before.
 */
export function createSubscriberLookup(model: WebhookModel) {
  const webhooks = durableCollection(model);

  const lookUps = createBatcher<SubscriberQuery, Found>({
    maxSize,
    concurrency,
    maxDelay,
    write(queries) {
      const distinct = new Map(queries.map((query) => [keyOf(query), query]));
      const found = new Map([...distinct].map(([key, query]) => [key, findWhole(webhooks, query)]));
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
