import { fromNow } from '../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import type { FoundItems, ItemKeeper, StoredObject } from '../proxy/ownership/stored-objects.ts';
import { type StoredObjectModel, toObject } from './model.ts';

/** The items that accounts have been shown. */
interface StoredItems {
  add(ids: readonly string[], keeper: ItemKeeper): Promise<void>;
  find(ids: readonly string[], userId: string): Promise<FoundItems>;
}

/** The `_id` of an object's document. Ids have no spaces. */
export function documentId({ id, kind, userId }: Pick<StoredObject, 'id' | 'kind' | 'userId'>): string {
  return kind === 'item' ? `item ${id} ${userId}` : id;
}

/** Values that the server takes as they are, whatever they begin with. */
function literals(fields: Readonly<Record<string, unknown>>) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, { $literal: value }]));
}

/** @param retention how long an item is remembered after it was last shown. Milliseconds. */
export function createStoredItems(objects: StoredObjectModel, retention: number): StoredItems {
  const collection = durableCollection(objects);
  return {
    async add(ids, { userId, upstream, model }) {
      const statements = [...new Set(ids)].map((id) => ({
        updateOne: {
          filter: { _id: documentId({ id, kind: 'item', userId }) },
          update: [
            {
              $set: {
                ...literals({ kind: 'item', userId, upstream, model, metadata: [], item: id }),
                createdAt: '$$NOW',
                expiresAt: fromNow(retention),
              },
            },
          ],
          upsert: true,
        },
      }));
      await collection.bulkWrite(statements, { ordered: false });
    },

    async find(ids, userId) {
      const own = new Map<string, StoredObject>();
      const documents = await collection.find({ item: { $in: [...ids] }, userId }, inOneBatch).toArray();
      for (const document of documents) own.set(document.item as string, toObject(document));
      const others = ids.filter((id) => !own.has(id));
      const foreign = others.length === 0 ? [] : await collection.distinct('item', { item: { $in: others } });
      return { own, foreign: new Set(foreign as string[]) };
    },
  };
}
