import { type Model, Schema } from 'mongoose';
import { modelFactory, schemaDate, schemaOptions } from '../mongo/collection.ts';
import type { Principal } from '../options/principal.ts';
import type { BackgroundUsage } from '../proxy/call-storage.ts';
import { listedKinds, type StoredKind } from './kinds.ts';
import type { StoredObject } from './stored-object.ts';

/** What an upstream works on after the call for it, and has not been counted yet. Times are by the database's clock. */
export interface BackgroundDocument {
  usage: BackgroundUsage;
  /** How often a process has claimed the next poll; the number fences that claim. */
  polls: number;
  /** When the upstream is polled next, or when the claim of who polls it lapses. */
  dueAt: Date;
  /** When it is polled no longer. */
  giveUpAt: Date;
}

/** Whose something that an upstream keeps is. */
export interface StoredObjectDocument
  extends Pick<StoredObject, 'userId' | 'upstream' | 'model' | 'origin' | 'name' | 'bytes'> {
  /**
   * As the upstream has named it: unique, so that no two accounts have the same. Of an item, which several may have, account and id; of a
   * fine-tuned model, which several upstreams may have, upstream and name; of a secret its hash, and never its text.
   */
  _id: string;
  kind: StoredKind | 'secret';
  /** What its caller has attached to it: each name and value as a list in JSON, so that any text may be a name. */
  metadata: string[];
  /** By the database's clock. */
  createdAt: Date;
  /** By the database's clock; absent for what upstreams keep until it is deleted. */
  expiresAt?: Date;
  /** Of an item or a fine-tuned model: as the upstream has named it. */
  item?: string;
  /** Since when its upstream does not know it, by the database's clock. */
  missingSince?: Date;
  /** In the place of an object that was forgotten: the account that it was of. */
  removedFrom?: string;
  /** Until the response is counted. */
  background?: BackgroundDocument;
  /** Of a secret: who had it made. */
  principal?: Principal;
  /** Of a secret: the model that transcribes in its session, as the caller called it. */
  transcriptionModel?: string;
}

export type StoredObjectModel = Model<StoredObjectDocument>;

const schema = new Schema<StoredObjectDocument>(
  {
    _id: String,
    kind: { type: String, required: true },
    userId: { type: String, required: true },
    upstream: { type: String, required: true },
    model: { type: String, default: null },
    metadata: { type: [String], default: [] },
    createdAt: { type: schemaDate, required: true },
    expiresAt: schemaDate,
    origin: Object,
    name: String,
    bytes: Number,
    item: String,
    missingSince: schemaDate,
    removedFrom: String,
    background: Object,
    principal: Object,
    transcriptionModel: String,
  },
  schemaOptions,
)
  .index({ expiresAt: 1 }, { name: 'expiry', expireAfterSeconds: 0 })
  .index(
    { 'background.dueAt': 1 },
    { name: 'background', partialFilterExpression: { 'background.dueAt': { $exists: true } } },
  )
  .index({ item: 1, userId: 1 }, { name: 'items', partialFilterExpression: { item: { $exists: true } } })
  .index({ createdAt: 1 }, { name: 'models', partialFilterExpression: { kind: 'model' } });
for (const [kind, name] of listedKinds) {
  // MongoDB takes two indexes of the same keys where their filters differ
  schema.index({ userId: 1, createdAt: 1, _id: 1 }, { name, partialFilterExpression: { kind } });
}
export const createStoredObjectModel = modelFactory('StoredObject', 'stored', schema);

/** A stored object as the model endpoints see it. */
export function toObject(document: StoredObjectDocument): StoredObject {
  const { _id, kind, userId, upstream, model, origin, item, background, missingSince } = document;
  return {
    id: item ?? _id,
    // secrets are read by themselves
    kind: kind as StoredKind,
    userId,
    upstream,
    model,
    ...(origin && { origin }),
    ...(background && { background: background.usage }),
    ...(missingSince && { isMissing: true }),
  };
}
