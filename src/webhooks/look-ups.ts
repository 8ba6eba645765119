import type { ClientSession } from 'mongoose';
import { durableCollection, inOneBatch } from '../collection.ts';
import { createGroup } from '../group-commit.ts';
import type { WebhookDocument, WebhookModel } from './model.ts';
import type { Subscribers } from './webhook.ts';

/** Whose webhooks hear of what. */
interface Audience {
  readonly userId: string;
  readonly type: string;
}

/** What publishing and delivering read of webhooks; what is asked at the same moment is asked once. */
export interface LookUps {
  /** Who hears of an event; inside a transaction if a session is given. */
  subscribers(audience: Audience, session?: ClientSession): Promise<Subscribers>;
  byId(id: string): Promise<WebhookDocument | null>;
}

/** Look-ups in one query. */
const most = 500;
const atOnce = 2;

const keyOf = ({ userId, type }: Audience) => `${type} ${userId}`;

/** Every answer is read after it was asked for: a webhook made, paused or deleted before that is seen so. */
export function createLookUps(webhooks: WebhookModel): LookUps {
  const collection = durableCollection(webhooks);

  /** Reads nothing but its index. */
  async function find({ userId, type }: Audience, session?: ClientSession): Promise<Subscribers> {
    const found = await collection
      .find({ userId, events: type }, { projection: { active: 1 }, ...(session && { session }) })
      .sort({ _id: 1 })
      .toArray();
    const idsOf = (state: boolean) => found.filter(({ active }) => active === state).map(({ _id }) => _id);
    return { targets: idsOf(true), skipped: idsOf(false) };
  }

  const audiences = createGroup<Audience, Subscribers>({
    most,
    atOnce,
    async write(asked) {
      const distinct = new Map(asked.map((one) => [keyOf(one), one]));
      const found = await Promise.all([...distinct].map(async ([key, one]) => [key, await find(one)] as const));
      const byKey = new Map(found);
      return asked.map((one) => byKey.get(keyOf(one)) as Subscribers);
    },
  });

  const documents = createGroup<string, WebhookDocument | null>({
    most,
    atOnce,
    async write(ids) {
      const found = await collection.find({ _id: { $in: [...new Set(ids)] } }, inOneBatch).toArray();
      const byId = new Map(found.map((webhook) => [webhook._id, webhook]));
      return ids.map((id) => byId.get(id) ?? null);
    },
  });

  return {
    subscribers: (audience, session) => (session ? find(audience, session) : audiences.add(audience)),
    byId: documents.add,
  };
}
