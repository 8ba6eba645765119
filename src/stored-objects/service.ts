import { fromNow } from '../mongo/clock.ts';
import { durableCollection, insertOnly } from '../mongo/collection.ts';
import { createReadConfirmed } from '../mongo/confirmed-reads.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import type { Logger } from '../options/options.ts';
import type { StoredObject, StoredObjects } from '../proxy/ownership/stored-objects.ts';
import { createStoredItems, documentId } from './items.ts';
import { createListStored, toPairs } from './list.ts';
import { type StoredObjectModel, toObject } from './model.ts';

export interface StoredObjectsDeps {
  readonly objects: StoredObjectModel;
  readonly database: Pick<DatabaseAccess, 'require' | 'run'>;
  /** How long responses and chat completions are remembered. Days. */
  readonly retentionDays: number;
  /** When a response that is made in the background is polled first, and for how long. Milliseconds. */
  readonly background: { readonly interval: number; readonly timeout: number };
  readonly logger: Pick<Logger, 'warn'>;
}

const millisecondsPerDay = 86_400_000;

/** Remembers whose the things are that upstreams keep, in the database. */
export function createStoredObjects(deps: StoredObjectsDeps): StoredObjects {
  const { objects, database, retentionDays, logger } = deps;
  const collection = durableCollection(objects);
  const readConfirmed = createReadConfirmed(collection);
  const retention = retentionDays * millisecondsPerDay;
  const items = createStoredItems(objects, retention);
  const list = createListStored(objects);

  /** Inserts it if there is none of its id. @returns what is stored under its id */
  async function insert({ id, metadata, background: usage, ...object }: StoredObject) {
    const { interval, timeout } = deps.background;
    const computed = {
      createdAt: '$$NOW',
      // upstreams keep conversations until they are deleted
      ...(object.kind !== 'conversation' && {
        expiresAt: fromNow(usage ? Math.max(retention, 2 * timeout) : retention),
      }),
      ...(usage && {
        background: {
          usage: { $literal: usage },
          polls: { $literal: 0 },
          dueAt: fromNow(interval),
          giveUpAt: fromNow(timeout),
        },
      }),
    };
    const document = { _id: id, ...object, metadata: toPairs(metadata) };
    return collection.findOneAndUpdate({ _id: id }, insertOnly(document, computed, 'userId'), {
      upsert: true,
      returnDocument: 'after',
    });
  }

  return {
    require: () => database.require(),
    async add(object) {
      const stored = await database.run(() => insert(object));
      if (stored?.userId === object.userId && stored.upstream === object.upstream) return true;
      logger.warn('an upstream has named a new object as another one is named', {
        upstream: object.upstream,
        kind: object.kind,
        id: object.id,
      });
      return false;
    },
    async find({ id, kind, userId }) {
      const _id = documentId({ id, kind, userId });
      const read = () => collection.findOne({ _id, kind, userId });
      const document = await database.run(() => readConfirmed(_id, read));
      return document && toObject(document);
    },
    async remove({ id, userId }, minAge = 0) {
      const isOld = { $expr: { $lte: ['$createdAt', fromNow(-minAge)] } };
      await database.run(() => collection.deleteOne({ _id: id, userId, ...(minAge > 0 && isOld) }));
    },
    async setMetadata({ id, userId }, metadata) {
      const change = { $set: { metadata: toPairs(metadata) } };
      await database.run(() => collection.updateOne({ _id: id, userId }, change));
    },
    async addItems(ids, keeper) {
      try {
        await database.run(() => items.add(ids, keeper));
      } catch (error) {
        const { upstream } = keeper;
        logger.warn('the items of an answer were not noted as those of its account', {
          upstream,
          reason: String(error),
        });
      }
    },
    findItems: ({ ids, userId }) => database.run(() => items.find(ids, userId)),
    list: (query) => database.run(() => list(query)),
  };
}
