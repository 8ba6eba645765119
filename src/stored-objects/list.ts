import { durableCollection } from '../mongo/collection.ts';
import type { StoredObject, StoredObjectQuery } from '../proxy/ownership/stored-objects.ts';
import { type StoredObjectDocument, type StoredObjectModel, toObject } from './model.ts';

/** Metadata as it is stored: an index can hold pairs, and a key of them may be anything. */
export function toPairs(metadata: StoredObject['metadata'] = {}): string[] {
  return Object.entries(metadata).map((pair) => JSON.stringify(pair));
}

/** What comes after a document in the order of a list. */
function beyond({ _id, createdAt }: StoredObjectDocument, order: StoredObjectQuery['order']) {
  const operator = order === 'asc' ? '$gt' : '$lt';
  return { $or: [{ createdAt: { [operator]: createdAt } }, { createdAt, _id: { [operator]: _id } }] };
}

/** Makes the function that lists stored objects of an account, and one more than the limit if there are more. */
export function createListStored(objects: StoredObjectModel): (query: StoredObjectQuery) => Promise<StoredObject[]> {
  const collection = durableCollection(objects);

  /** Where the next page of a list begins. `null` if the account has no such object. */
  async function after({ after: id, userId, kind, order }: StoredObjectQuery) {
    if (id === undefined) return {};
    const last = await collection.findOne({ _id: id, userId, kind });
    return last && beyond(last, order);
  }

  return async function listStored(query) {
    const { userId, kind, limit, order, model, metadata } = query;
    const rest = await after(query);
    if (!rest) return [];
    const pairs = toPairs(metadata);
    const filter = {
      userId,
      kind,
      ...rest,
      ...(model !== undefined && { model }),
      ...(pairs.length > 0 && { metadata: { $all: pairs } }),
    } as Parameters<typeof collection.find>[0];
    const direction = order === 'asc' ? 1 : -1;
    const cursor = collection.find(filter, { sort: { createdAt: direction, _id: direction }, limit: limit + 1 });
    return (await cursor.toArray()).map(toObject);
  };
}
