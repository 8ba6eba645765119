import type { ClientSession } from 'mongoose';
import { createBatcher } from '../mongo/batcher.ts';
import { durableCollection } from '../mongo/collection.ts';
import { findAllConfirmed, findConfirmed } from '../mongo/confirmed-reads.ts';
import type { WebhookDocument, WebhookModel } from './model.ts';
import type { Subscribers } from './webhook.ts';

/** Whose webhooks hear of what. */
interface SubscriberQuery {
  readonly userId: string;
  readonly type: string;
}

/** What publishing and delivering read of webhooks; what is asked at the same moment is asked once. */
export interface SubscriberLookup {
  /** Who hears of an event; inside a transaction if a session is given. */
  subscribers(query: SubscriberQuery, session?: ClientSession): Promise<Subscribers>;
  /** The same, as no primary answers that has been replaced. @throws TimeoutError where the database does not confirm it */
  confirmedSubscribers(query: SubscriberQuery): Promise<Subscribers>;
  /** `null` when it is gone, which is confirmed. */
  byId(id: string): Promise<WebhookDocument | null>;
  /** What is found is certain too. */
  confirmedById(id: string): Promise<WebhookDocument | null>;
}

/** Look-ups in one query. */
const maxSize = 500;
const concurrency = 2;

const keyOf = ({ userId, type }: SubscriberQuery) => `${type} ${userId}`;

/** Every answer is read after it was asked for: a webhook made, paused or deleted before that is seen so. */
export function createSubscriberLookup(webhooks: WebhookModel): SubscriberLookup {
  const collection = durableCollection(webhooks);

  function toSubscribers(found: readonly Pick<WebhookDocument, '_id' | 'active'>[]): Subscribers {
    const idsOf = (state: boolean) => found.filter(({ active }) => active === state).map(({ _id }) => _id);
    return { targets: idsOf(true), skipped: idsOf(false) };
  }

  /** Reads nothing but its index. */
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
    async write(asked) {
      const distinct = new Map(asked.map((one) => [keyOf(one), one]));
      const found = await Promise.all([...distinct].map(async ([key, one]) => [key, await find(one)] as const));
      const byKey = new Map(found);
      return asked.map((one) => byKey.get(keyOf(one)) as Subscribers);
    },
  });

  const confirmedLookUps = createBatcher<SubscriberQuery, Subscribers>({
    maxSize,
    async write(asked) {
      const distinct = new Map(asked.map((one) => [keyOf(one), { userId: one.userId, events: one.type }]));
      const projection = { userId: 1, events: 1, active: 1 };
      const found = await findConfirmed(collection, { $or: [...distinct.values()] }, { projection });
      const byKey = new Map<string, typeof found>([...distinct.keys()].map((key) => [key, []]));
      for (const webhook of found) {
        for (const type of webhook.events) byKey.get(keyOf({ userId: webhook.userId, type }))?.push(webhook);
      }
      return asked.map((one) => toSubscribers(byKey.get(keyOf(one)) ?? []));
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
