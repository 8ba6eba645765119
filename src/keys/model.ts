import { type Model, Schema } from 'mongoose';
import { durableCollection, inOneBatch, modelFactory, schemaDate, schemaOptions } from '../mongo/collection.ts';
import { type Budget, storedBudgets } from '../options/budgets.ts';
import type { Scope } from '../options/principal.ts';

/** One API key, as it is stored. Its text is never stored. */
export interface KeyDocument {
  /** `key_…` */
  _id: string;
  /** The account it belongs to. */
  userId: string;
  /** What its owner calls it; may be empty. */
  name: string;
  /** SHA-256 of the whole key text, in hexadecimal: 256 random bits need no slow hash. */
  hash: string;
  /** What it may be used for. */
  scopes: Scope[];
  /** The only models it may call; `null` for any. */
  models: string[] | null;
  /** The most that it may use; absent in keys of earlier versions. */
  budgets?: Budget[];
  createdAt: Date;
  /** By the database's clock; `null` for never. */
  expiresAt: Date | null;
  /** By the database's clock, up to a minute late; `null` until it is used. */
  lastUsedAt: Date | null;
  /** `null` until it is revoked. */
  revokedAt: Date | null;
  /** Its slot among the account's working keys; absent if it has ended. */
  slot?: number;
}

export type KeyModel = Model<KeyDocument>;

const schema = new Schema<KeyDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    name: { type: String, default: '' },
    hash: { type: String, required: true },
    scopes: { type: [String], required: true },
    models: { type: [String], default: null },
    budgets: storedBudgets,
    createdAt: { type: schemaDate, required: true },
    expiresAt: { type: schemaDate, default: null },
    lastUsedAt: { type: schemaDate, default: null },
    revokedAt: { type: schemaDate, default: null },
    slot: Number,
  },
  schemaOptions,
)
  .index({ userId: 1, _id: 1 }, { name: 'userKeys' })
  .index({ userId: 1, slot: 1 }, { name: 'slot', unique: true, partialFilterExpression: { slot: { $exists: true } } });
export const createKeyModel = modelFactory('Key', 'keys', schema);

function withSlot(userId: string) {
  return { userId, slot: { $exists: true } };
}

/** The slots of an account's working keys. */
export async function takenSlots(keys: KeyModel, userId: string): Promise<Set<number>> {
  const documents = await durableCollection(keys)
    .find(withSlot(userId), { projection: { _id: 0, slot: 1 }, ...inOneBatch })
    .toArray();
  return new Set(documents.flatMap(({ slot = [] }) => slot));
}

/** Frees the slots of an account's expired keys, by the database's clock. */
export async function releaseExpired(keys: KeyModel, userId: string): Promise<void> {
  const expired = { $and: [{ $gt: ['$expiresAt', null] }, { $lte: ['$expiresAt', '$$NOW'] }] };
  const filter = { ...withSlot(userId), expiresAt: { $ne: null }, $expr: expired };
  await durableCollection(keys).updateMany(filter, { $unset: { slot: 1 } });
}

/** Whether a key may be used at this moment, by the clock of the database. */
export const good = {
  $and: [
    { $eq: ['$revokedAt', null] },
    // a missing field sorts before null, and null before every date
    { $or: [{ $lte: ['$expiresAt', null] }, { $gt: ['$expiresAt', '$$NOW'] }] },
  ],
};

/** Counts the working keys of each of these accounts; an account without any is not in it. */
export async function countWorking(keys: KeyModel, userIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const groups = await durableCollection(keys)
    .aggregate<{ _id: string; count: number }>(
      [
        // only a working key has a slot; one that has expired may still have it
        { $match: { userId: { $in: [...userIds] }, slot: { $exists: true } } },
        { $match: { $expr: good } },
        { $group: { _id: '$userId', count: { $sum: 1 } } },
      ],
      inOneBatch,
    )
    .toArray();
  return new Map(groups.map(({ _id, count }) => [_id, count]));
}

/** Sets the last use of these keys to now, by the database's clock. */
export async function markUsed(keys: KeyModel, ids: readonly string[]): Promise<void> {
  await durableCollection(keys).updateMany({ _id: { $in: [...new Set(ids)] } }, [{ $set: { lastUsedAt: '$$NOW' } }]);
}
