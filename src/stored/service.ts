import { fromNow } from '../mongo/clock.ts';
import { distinctValues, durableCollection, inOneBatch, insertOnly } from '../mongo/collection.ts';
import { createReadConfirmed, findOneConfirmed } from '../mongo/confirmed-reads.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import type { Logger } from '../options/options.ts';
import type { ShownObject } from './answer-ids.ts';
import { FineTunedModels } from './fine-tuned-models.ts';
import { kinds, type StoredKind } from './kinds.ts';
import { type StoredObjectDocument, type StoredObjectModel, toObject } from './model.ts';
import type { BackgroundResponse, StoredObject } from './stored-object.ts';

/** Where the items of an answer are kept, and for whom. Its id is that of the object that shows or has made them, where that is known. */
export type ItemKeeper = Pick<StoredObject, 'userId' | 'upstream' | 'model' | 'origin'> &
  Partial<Pick<StoredObject, 'id'>>;

/** Which objects of an account a list has. */
export interface StoredObjectQuery {
  readonly userId: string;
  readonly kind: StoredKind;
  /** Only those that come after this one. */
  readonly after?: string;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
  readonly model?: string;
  /** Only those with all of these pairs. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Remembers whose the things are that upstreams keep. Every function rejects with `database_unavailable` if the database is the cause. */
export type StoredObjects = Pick<StoredObjectRecords, keyof StoredObjectRecords>;

const millisecondsPerDay = 86_400_000;

/** For how long upstreams do not know what is forgotten; what was stored a moment ago they may not know everywhere. Milliseconds. */
const forgetAfter = { kept: 7 * millisecondsPerDay, other: 10 * 60_000 };

/** What stands in the place of an object that was removed, so that it stays known. */
const removed = { _id: '$_id', removedFrom: '$userId', createdAt: '$createdAt' };
/** The same for what is forgotten within the hour. */
const tombstone = { ...removed, expiresAt: fromNow(3_600_000) };

/** The `_id` of an object's document. Ids have no spaces. */
function documentId({
  id,
  kind,
  userId,
  upstream,
  origin,
}: Pick<StoredObject, 'id' | 'kind' | 'userId' | 'upstream' | 'origin'>): string {
  const { isShared, isOfUpstream, partNames } = kinds[kind];
  if (partNames) return `${kind} ${origin?.parent} ${id}`;
  if (isShared) return `${kind} ${id} ${userId}`;
  return isOfUpstream ? `${kind} ${id} ${upstream}` : id;
}

/** Metadata as it is stored: an index can hold pairs, and a key of them may be anything. */
function toPairs(metadata: StoredObject['metadata'] = {}): string[] {
  return Object.entries(metadata).map((pair) => JSON.stringify(pair));
}

/** What comes after a document in the order of a list. */
export function beyond({ _id, createdAt }: StoredObjectDocument, order: StoredObjectQuery['order']) {
  const operator = order === 'asc' ? '$gt' : '$lt';
  const sameTime = { createdAt, _id: { [operator]: _id } };
  // the first bound is where the index is entered
  return { createdAt: { [`${operator}e`]: createdAt }, $or: [{ createdAt: { [operator]: createdAt } }, sameTime] };
}

interface StoredObjectsDeps {
  readonly objects: StoredObjectModel;
  readonly database: Pick<DatabaseAccess, 'require' | 'run' | 'isUnavailable'>;
  /** How long responses and chat completions are remembered. Days. */
  readonly retentionDays: number;
  /** When a response that is made in the background is polled first, and for how long. Milliseconds. */
  readonly background: { readonly interval: number; readonly timeout: number };
  readonly logger: Pick<Logger, 'warn'>;
}

/** Where the database takes longer to count an account's files, none goes up: to note its owner could take as long again. Milliseconds. */
const longestCount = 1_500;

type Collection = ReturnType<typeof durableCollection<StoredObjectDocument>>;

/** Remembers whose the things are that upstreams keep, in the database. */
export class StoredObjectRecords {
  /** The fine-tuned models of accounts. */
  readonly models: Pick<FineTunedModels, keyof FineTunedModels>;
  readonly #collection: Collection;
  readonly #readConfirmed: ReturnType<typeof createReadConfirmed>;
  readonly #database: StoredObjectsDeps['database'];
  readonly #retention: number;
  readonly #background: StoredObjectsDeps['background'];
  readonly #logger: StoredObjectsDeps['logger'];

  constructor({ objects, database, retentionDays, background, logger }: StoredObjectsDeps) {
    const collection = durableCollection(objects);
    this.#collection = collection;
    this.#readConfirmed = createReadConfirmed(collection);
    this.#database = database;
    this.#retention = retentionDays * millisecondsPerDay;
    this.#background = background;
    this.#logger = logger;
    this.models = new FineTunedModels({ collection, database, logger });
  }

  /** @throws GatewayError `database_unavailable` if nothing can be stored at present */
  require(): void {
    this.#database.require();
  }

  /** Inserts it if there is none of its id. @returns what is stored under its id */
  async #insert(given: StoredObject) {
    const { id, metadata, background: usage, ...object } = given;
    const { interval } = this.#background;
    const { work, isKept, isOfUpstream, partNames } = kinds[object.kind];
    const timeout = Math.max(this.#background.timeout, work?.followedFor ?? 0);
    const computed = {
      createdAt: '$$NOW',
      ...(!isKept && { expiresAt: fromNow(usage ? Math.max(this.#retention, 2 * timeout) : this.#retention) }),
      ...(usage && {
        background: {
          ...{ usage: { $literal: usage }, polls: { $literal: 0 } },
          ...{ dueAt: fromNow(interval), giveUpAt: fromNow(timeout) },
        },
      }),
    };
    const _id = documentId(given);
    const document = { _id, ...object, metadata: toPairs(metadata), ...((isOfUpstream || partNames) && { item: id }) };
    const options = { upsert: true, returnDocument: 'after' } as const;
    return this.#collection.findOneAndUpdate({ _id }, insertOnly(document, computed, 'userId'), options);
  }

  /** Stores items and parts. */
  async #insertParts(
    parts: readonly ShownObject[],
    { userId, upstream, model, id: parent }: ItemKeeper,
  ): Promise<void> {
    const times = { createdAt: '$$NOW', expiresAt: fromNow(this.#retention) };
    const statements = new Map(
      parts.map(({ kind, id }) => {
        const _id = documentId({ id, kind, userId, upstream, ...(parent !== undefined && { origin: { parent } }) });
        const fields = { $literal: { kind, userId, upstream, model, metadata: [], item: id } };
        const update = [{ $replaceWith: { $mergeObjects: ['$$ROOT', fields, times] } }];
        return [_id, { updateOne: { filter: { _id }, update, upsert: true } }] as const;
      }),
    );
    await this.#collection.bulkWrite([...statements.values()], { ordered: false });
  }

  /** Stores the record of a new object. An id that is taken stays whose it is. @returns whether it is this object's now */
  async add(object: StoredObject): Promise<boolean> {
    const { kind, id, upstream } = object;
    const stored = await this.#database
      .run(() => this.#insert(object))
      .catch((error: unknown) => {
        const reason = String(error);
        const message = 'what an upstream has made was not noted, and belongs to nobody: delete it there';
        this.#logger.warn(message, { upstream, kind, id, reason });
        throw error;
      });
    if (stored?.userId === object.userId && stored.upstream === upstream && stored.kind === kind) {
      if (kind === 'model') this.models.added(stored);
      return true;
    }
    this.#logger.warn('an upstream has named a new object as another one is named', { upstream, kind, id });
    return false;
  }

  /** Stores what was made for an account by what it has an upstream do, unless the account has deleted it since. */
  async addMade(made: readonly ShownObject[], keeper: ItemKeeper): Promise<void> {
    if (made.length === 0) return;
    const { userId, upstream, model, id: parent, origin: { keyId } = {} } = keeper;
    const origin = { ...(keyId !== undefined && { keyId }), ...(parent !== undefined && { parent }) };
    // some providers say the base model where there is no other yet
    const news = made.filter(({ kind, id }) => kind !== 'model' || id !== model);
    const objects = news.map(({ kind, id, purpose }): StoredObject => {
      const object = { kind, id, userId, upstream, origin };
      if (kind === 'model') return { ...object, model: id };
      // what a key that is limited to some models must not read of a batch, it must not read of its files
      return kind === 'file'
        ? { ...object, model, ...(purpose && { metadata: { purpose } }) }
        : { ...object, model: null };
    });
    const ids = objects.map(documentId);
    const read = () => distinctValues(this.#collection, '_id', { _id: { $in: ids }, removedFrom: userId });
    const gone = new Set(await this.#database.run(read));
    await Promise.all(objects.filter((object) => !gone.has(documentId(object))).map((object) => this.add(object)));
  }

  /** What upstreams work on for an account and is not counted, up to so many. */
  async uncounted(
    { userId, kind }: Pick<StoredObject, 'userId' | 'kind'>,
    most: number,
  ): Promise<readonly BackgroundResponse[]> {
    const filter = { userId, kind, 'background.dueAt': { $exists: true } } as const;
    const found = await this.#database.run(() =>
      this.#collection.find(filter, { limit: most, ...inOneBatch }).toArray(),
    );
    return found.map(toObject) as BackgroundResponse[];
  }

  /** The account's object of this kind and id, and of the `parent` in its origin where it is a part of that; `null` is certain. */
  async find({
    id,
    kind,
    userId,
    origin,
  }: Pick<StoredObject, 'id' | 'kind' | 'userId' | 'origin'>): Promise<StoredObject | null> {
    const document = await this.#database.run(() => {
      // which upstream has made it is to be found
      if (kinds[kind].isOfUpstream) return findOneConfirmed(this.#collection, { item: id, kind, userId });
      const _id = documentId({ id, kind, userId, upstream: '', ...(origin && { origin }) });
      return this.#readConfirmed(_id, () => this.#collection.findOne({ _id, kind, userId }));
    });
    return document && toObject(document);
  }

  /** Whether any account has an object with this id. */
  isKnown(id: string): Promise<boolean> {
    return this.#database.run(async () => {
      const filter = { _id: id, userId: { $exists: true } };
      return (await this.#collection.findOne(filter, { projection: { _id: 1 } })) !== null;
    });
  }

  /**
   * How many objects of a kind an account has, counted up to `most`; those that their upstreams do not know are left out.
   * @throws GatewayError `database_unavailable`, after 1.5 s at most
   */
  count({ userId, kind }: Pick<StoredObject, 'userId' | 'kind'>, most: number): Promise<number> {
    const filter = { userId, kind, missingSince: { $exists: false } };
    return this.#database.run(() => this.#collection.countDocuments(filter, { limit: most }), longestCount);
  }

  /** Removes an object. For a while, a list still knows where it stood: clients delete what they list, page by page. */
  async remove(object: StoredObject): Promise<void> {
    const { kind, userId } = object;
    const left = kinds[kind].staysRemoved ? removed : tombstone;
    await this.#database.run(() =>
      this.#collection.updateOne({ _id: documentId(object), userId }, [{ $replaceWith: left }]),
    );
    if (kind === 'model') this.models.removed(object);
  }

  /**
   * Notes that its upstream does not know an object. It is forgotten when that is so for a while: for what upstreams keep until it is deleted, days,
   * because one with another key, or at another address, knows nothing of it either.
   */
  async missing({ id, kind, userId }: Pick<StoredObject, 'id' | 'kind' | 'userId'>): Promise<void> {
    const since = kinds[kind].isKept ? '$missingSince' : '$createdAt';
    const isGone = { $lte: [since, fromNow(-forgetAfter[kinds[kind].isKept ? 'kept' : 'other'])] };
    const change = [
      { $set: { missingSince: { $ifNull: ['$missingSince', '$$NOW'] } } },
      { $replaceWith: { $cond: [isGone, tombstone, '$$ROOT'] } },
    ];
    await this.#database.run(() => this.#collection.updateOne({ _id: id, userId }, change));
  }

  /** Notes that its upstream knows it again. */
  async found({ id, userId }: Pick<StoredObject, 'id' | 'userId'>): Promise<void> {
    await this.#database.run(() => this.#collection.updateOne({ _id: id, userId }, { $unset: { missingSince: true } }));
  }

  /** Replaces what its caller has attached to an object. */
  async setMetadata(
    { id, userId }: Pick<StoredObject, 'id' | 'userId'>,
    metadata: Readonly<Record<string, string>>,
  ): Promise<void> {
    const change = { $set: { metadata: toPairs(metadata) } };
    await this.#database.run(() => this.#collection.updateOne({ _id: id, userId }, change));
  }

  /**
   * Stores what an account has been shown. Several accounts may have items of the same id, because not every
   * upstream gives each item an id of its own. Never rejects: the account may have it shown again.
   */
  async addShown(shown: readonly ShownObject[], keeper: ItemKeeper): Promise<void> {
    const isPart = ({ kind }: ShownObject) => kind === 'item' || kinds[kind].partNames !== undefined;
    const parts = shown.filter(isPart);
    const others = shown.filter((object) => !isPart(object));
    try {
      if (parts.length > 0) await this.#database.run(() => this.#insertParts(parts, keeper));
      await this.addMade(others, keeper);
    } catch (error) {
      const { upstream } = keeper;
      this.#logger.warn('what an answer shows was not noted as that of its account', {
        upstream,
        reason: String(error),
      });
    }
  }

  /**
   * Which of these items the account has been shown, and which only other accounts have. That one is neither own nor foreign is not
   * certain; ask `find`.
   */
  findItems({ ids, userId }: { readonly ids: readonly string[]; readonly userId: string }) {
    return this.#database.run(async () => {
      const isOwn = { item: { $in: [...ids] }, userId, kind: 'item' } as const;
      const documents = await this.#collection.find(isOwn, inOneBatch).toArray();
      const own = new Map(documents.map((document) => [document.item as string, toObject(document)]));
      const others = ids.filter((id) => !own.has(id));
      const foreign =
        others.length === 0
          ? []
          : await distinctValues(this.#collection, 'item', { item: { $in: others }, kind: 'item' });
      return { own, foreign: new Set(foreign as string[]) };
    });
  }

  /** The account's objects in the order in which they were made, and one more than `limit` if there are more. */
  list({ userId, kind, limit, order, model, metadata, after }: StoredObjectQuery): Promise<readonly StoredObject[]> {
    return this.#database.run(async () => {
      const own = { $or: [{ userId, kind }, { removedFrom: userId }] };
      const last = after === undefined ? undefined : await this.#collection.findOne({ _id: after, ...own });
      // the account has no such object
      if (last === null) return [];
      const pairs = toPairs(metadata);
      const filter = {
        ...{ userId, kind, ...(last && beyond(last, order)) },
        ...(model !== undefined && { model }),
        ...(pairs.length > 0 && { metadata: { $all: pairs } }),
      } as Parameters<Collection['find']>[0];
      const direction = order === 'asc' ? 1 : -1;
      const cursor = this.#collection.find(filter, {
        sort: { createdAt: direction, _id: direction },
        limit: limit + 1,
      });
      return (await cursor.toArray()).map(toObject);
    });
  }
}
