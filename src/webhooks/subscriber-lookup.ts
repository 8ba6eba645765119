import type { ClientSession } from 'mongoose';
import { createBatcher } from '../mongo/batcher.ts';
import { durableCollection } from '../mongo/collection.ts';
import { findAllConfirmed, findConfirmed } from '../mongo/confirmed-reads.ts';
import type { WebhookDocument, WebhookModel } from './model.ts';
import type { Subscribers } from './webhook.ts';

/** The account and the event type. */
interface SubscriberQuery {
  readonly userId: string;
  readonly type: string;
}

/** The reads of webhooks for publications and deliveries. Calls at the same moment share a query. */
export interface SubscriberLookup {
  /** The webhooks subscribed to an event; in a transaction if a session is given. */
  subscribers(query: SubscriberQuery, session?: ClientSession): Promise<Subscribers>;
  /** The same by a confirmed read. @throws TimeoutError if the database does not confirm it */
  confirmedSubscribers(query: SubscriberQuery): Promise<Subscribers>;
  /** `null` if it is confirmed to be gone. */
  byId(id: string): Promise<WebhookDocument | null>;
  /** The same by a confirmed read: what it finds is certain, too. */
  confirmedById(id: string): Promise<WebhookDocument | null>;
}

/** Look-ups in one query. */
const maxSize = 500;
const concurrency = 2;

const keyOf = ({ userId, type }: SubscriberQuery) => `${type} ${userId}`;

/** Each result is read after the call, so it shows every webhook that was created, paused or deleted before. */
export function createSubscriberLookup(webhooks: WebhookModel): SubscriberLookup {
  const collection = durableCollection(webhooks);

  function toSubscribers(found: readonly Pick<WebhookDocument, '_id' | 'active'>[]): Subscribers {
    const idsOf = (state: boolean) => found.filter(({ active }) => active === state).map(({ _id }) => _id);
    return { targets: idsOf(true), skipped: idsOf(false) };
  }

  /** Reads only the index. */
  async function find({ userId, type }: SubscriberQuery, session?: ClientSession): Promise<Subscribers> {
    const found = await collection
      .find({ userId, events: type }, { projection: { active: 1 }, ...(session && { session }) })
      .sort({ _id: 1 })
      .toArray();
    return toSubscribers(found);
  }

  const lookUps = createBatcher<SubscriberQuery, Subscribers>({
    maxSize,
    concurrency,
    async write(queries) {
      const distinct = new Map(queries.map((query) => [keyOf(query), query]));
      const found = await Promise.all([...distinct].map(async ([key, query]) => [key, await find(query)] as const));
      const byKey = new Map(found);
      return queries.map((query) => byKey.get(keyOf(query)) ?? toSubscribers([]));
    },
  });

  const confirmedLookUps = createBatcher<SubscriberQuery, Subscribers>({
    maxSize,
    async write(queries) {
      const distinct = new Map(queries.map((query) => [keyOf(query), { userId: query.userId, events: query.type }]));
      const projection = { userId: 1, events: 1, active: 1 };
      const found = await findConfirmed(collection, { $or: [...distinct.values()] }, { projection });
      const byKey = new Map<string, typeof found>([...distinct.keys()].map((key) => [key, []]));
      for (const webhook of found) {
        for (const type of webhook.events) byKey.get(keyOf({ userId: webhook.userId, type }))?.push(webhook);
      }
      return queries.map((query) => toSubscribers(byKey.get(keyOf(query)) ?? []));
    },
  });

  const documents = createBatcher<string, WebhookDocument | null>({
    maxSize,
    concurrency,
    async write(ids) {
      const found = await findAllConfirmed(collection, ids);
      return ids.map((id) => found.get(id) ?? null);
    },
  });

  const confirmed = createBatcher<string, WebhookDocument | null>({
    maxSize,
    async write(ids) {
      const found = await findConfirmed(collection, { _id: { $in: [...new Set(ids)] } });
      const byId = new Map(found.map((webhook) => [webhook._id, webhook]));
      return ids.map((id) => byId.get(id) ?? null);
    },
  });

  return {
    subscribers: (query, session) => (session ? find(query, session) : lookUps.add(query)),
    confirmedSubscribers: confirmedLookUps.add,
    byId: documents.add,
    confirmedById: confirmed.add,
  };
}
