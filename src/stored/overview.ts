import type { components } from '../api.d.ts';
import { refuse } from '../errors.ts';
import { checkUserId } from '../ids.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { checkLimit, checkTimes, type Page, pageLimit } from '../mongo/list-page.ts';
import { isStoredId, kinds, listedKinds, type StoredKind } from './kinds.ts';
import type { StoredObjectDocument, StoredObjectModel } from './model.ts';
import { beyond } from './service.ts';

/** How much of one kind an account has: at most {@link mostCounted}, and the bytes of those whose size is known. */
type ListedTotal = components['schemas']['StoredObjectTotal'];

/** Which objects of an account, and which page of them. */
interface ListedQuery extends Page {
  /** @default all that are listed */
  readonly kind?: string;
  /** Only those that were made at this moment or later. */
  readonly since?: Date;
  /** Only those that were made before this moment. */
  readonly until?: Date;
}

/** A page of what upstreams keep for an account, newest first. */
export interface ListedPage {
  readonly documents: readonly StoredObjectDocument[];
  readonly hasMore: boolean;
  /** How much of each kind that the account has, whatever the page is narrowed to; `undefined` where the page follows another. */
  readonly totals: ListedTotal[] | undefined;
}

/** Whose objects are listed: of a key that is limited to some models, those that these have made, and those that no model has. */
interface Owner {
  readonly userId: string;
  /** @default any */
  readonly models?: readonly string[] | undefined;
}

export type ListStored = (owner: Owner, page?: ListedQuery) => Promise<ListedPage>;

/** Of each kind, so many are counted at most: an account may have millions of responses. */
const mostCounted = 10_000;

/** What an account has of a kind. Its upstream may not know some any more. */
const ownFilter = (kind: StoredKind, { userId, models }: Owner) => ({
  userId,
  kind,
  missingSince: { $exists: false },
  ...(models && { model: { $in: [null, ...models] } }),
});

/** Makes the function that lists what upstreams keep for an account, by what the gateway has noted: it asks no upstream. */
export function createListStored(objects: StoredObjectModel, database: Pick<DatabaseAccess, 'run'>): ListStored {
  const collection = durableCollection(objects);

  async function page(owner: Owner, query: ListedQuery): Promise<StoredObjectDocument[]> {
    const { since, until, after, limit = pageLimit } = query;
    const { userId } = owner;
    const ofUser = { $or: [{ userId }, { removedFrom: userId }] };
    const last = after === undefined ? undefined : await collection.findOne({ _id: after, ...ofUser });
    if (last === null) return [];
    const createdAt = { ...(since && { $gte: since }), ...(until && { $lt: until }) };
    const bounds = [...(since || until ? [{ createdAt }] : []), ...(last ? [beyond(last, 'desc')] : [])];
    const wanted = [...listedKinds].filter(([kind]) => query.kind === undefined || kind === query.kind);
    const found = await Promise.all(
      wanted.map(([kind, hint]) => {
        const filter = { ...ownFilter(kind, owner), ...(bounds.length > 0 && { $and: bounds }) };
        return collection
          .find(filter as object, { sort: { createdAt: -1, _id: -1 }, limit: limit + 1, hint, ...inOneBatch })
          .toArray();
      }),
    );
    return found.flat().sort(newestFirst);
  }

  async function total(kind: StoredKind, hint: string, owner: Owner): Promise<ListedTotal> {
    const filter = ownFilter(kind, owner);
    const isSized = kinds[kind].describedBy?.bytes !== undefined;
    const stages = [
      { $match: filter },
      { $limit: mostCounted + 1 },
      { $group: { _id: null, count: { $sum: 1 }, ...(isSized && { bytes: { $sum: '$bytes' } }) } },
    ];
    const [sum] = await collection.aggregate<{ count: number; bytes?: number }>(stages, { hint }).toArray();
    const { count = 0, bytes = 0 } = sum ?? {};
    const counted = Math.min(count, mostCounted);
    return { kind: kind as ListedTotal['kind'], count: counted, bytes, has_more: count > counted };
  }

  return async function listStored(owner, query = {}) {
    checkUserId(owner.userId);
    checkQuery(query);
    const { limit = pageLimit, after } = query;
    const sums = () => Promise.all([...listedKinds].map(([kind, hint]) => total(kind, hint, owner)));
    const [documents, totals] = await database.run(() =>
      Promise.all([page(owner, query), after === undefined ? sums() : undefined]),
    );
    return {
      documents: documents.slice(0, limit),
      hasMore: documents.length > limit,
      totals: totals?.filter(({ count }) => count > 0),
    };
  };
}

/** @throws GatewayError `invalid_value` */
function checkQuery({ kind, since, until, limit = pageLimit, after }: ListedQuery): void {
  checkLimit(limit);
  checkTimes({ since, until });
  if (kind !== undefined && !listedKinds.has(kind as StoredKind)) {
    refuse('invalid_value', 'kind', `must be one of ${[...listedKinds.keys()].join(', ')}`);
  }
  if (after !== undefined && !isStoredId(after)) refuse('invalid_value', 'after', 'must be the id of a stored object');
}

function newestFirst(a: StoredObjectDocument, b: StoredObjectDocument): number {
  const later = b.createdAt.getTime() - a.createdAt.getTime();
  return later || Buffer.compare(Buffer.from(b._id), Buffer.from(a._id));
}
