import { type Connection, type Model, Schema } from 'mongoose';
import { durableCollection, durableSchema, modelOf } from '../mongo/collection.ts';

/** A stored rotation: the previous secret also signs until `endsAt`. */
interface StoredRotation {
  /** Sealed for this document and field. */
  previousSecret: string;
  /** By the database's clock. */
  endsAt: Date;
  serviceSignature: 'new' | 'previous';
}

/** Set if the gateway has set the webhook inactive. */
export interface StoredDisabling {
  /** By the database's clock. */
  at: Date;
  reason: 'gone' | 'failing';
}

/** A stored webhook. */
export interface WebhookDocument {
  /** `wh_…` */
  _id: string;
  /** The account it belongs to. */
  userId: string;
  /** Its slot among the account's webhooks: unique, so that no race exceeds their limit. */
  slot: number;
  url: string;
  events: string[];
  active: boolean;
  description?: string;
  /** As JSON. */
  metadata?: string;
  /** As JSON, so that the index of subscribers can hold it. */
  filters?: string;
  /** Requests a second. */
  rateLimit?: number;
  /** As JSON, sealed for this document and field. */
  headers?: string;
  headerNames?: string[];
  /** When it was last set active again; absent if it was never inactive. */
  enabledAt?: Date;
  /** Present until the owner sets it active again. */
  disabled?: StoredDisabling;
  /** Sealed for this document and field. */
  secret: string;
  rotation?: StoredRotation;
  /** The ids of the keys that seal its secrets, so that an index tells which keys are in use. */
  sealedWith: string[];
  createdAt: Date;
}

export type WebhookModel = Model<WebhookDocument>;

const rotation = new Schema<StoredRotation>(
  {
    previousSecret: { type: String, required: true },
    endsAt: { type: Date, required: true },
    serviceSignature: { type: String, enum: ['new', 'previous'], required: true },
  },
  { _id: false, strict: 'throw' },
);

const disabling = new Schema<StoredDisabling>(
  { at: { type: Date, required: true }, reason: { type: String, enum: ['gone', 'failing'], required: true } },
  { _id: false, strict: 'throw' },
);

const schema = new Schema<WebhookDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    slot: { type: Number, required: true },
    url: { type: String, required: true },
    events: { type: [String], required: true },
    active: { type: Boolean, required: true },
    description: String,
    metadata: String,
    filters: String,
    rateLimit: Number,
    headers: String,
    headerNames: { type: [String], default: undefined },
    enabledAt: Date,
    disabled: disabling,
    secret: { type: String, required: true },
    rotation,
    sealedWith: { type: [String], required: true },
    createdAt: { type: Date, required: true },
  },
  durableSchema,
)
  .index({ userId: 1, slot: 1 }, { name: 'slot', unique: true })
  .index({ userId: 1, _id: 1 }, { name: 'userWebhooks' })
  .index({ userId: 1, events: 1, _id: 1, active: 1, filters: 1 }, { name: 'filteredSubscribers' })
  .index({ sealedWith: 1, _id: 1 }, { name: 'sealedWith' })
  .index({ _id: 1, 'disabled.at': 1 }, { name: 'disabled', partialFilterExpression: { disabled: { $exists: true } } });

/** The webhooks of one gateway: model `<prefix>Webhook`, collection `<prefix>webhooks`. */
export function createWebhookModel(connection: Connection, prefix: string): WebhookModel {
  return modelOf(connection, `${prefix}Webhook`, schema, `${prefix}webhooks`);
}

/** The id of the key that sealed a field, as a list; empty if there is no such field. It stands in the sealed text. */
function keyOf(field: string) {
  return { $cond: [{ $eq: [{ $type: field }, 'string'] }, [{ $arrayElemAt: [{ $split: [field, '.'] }, 1] }], []] };
}

/** The stage of a pipeline that names the keys of what is sealed now. */
const nameKeys = {
  $set: { sealedWith: { $setUnion: [keyOf('$secret'), keyOf('$rotation.previousSecret'), keyOf('$headers')] } },
} as const;

/**
 * Changes a webhook by a pipeline if it still matches the filter; otherwise `null`. It bypasses mongoose, which would try to cast
 * the pipeline's expressions. `sealedWith` follows from what is sealed.
 */
export async function changeByPipeline(
  webhooks: WebhookModel,
  filter: Partial<Pick<WebhookDocument, '_id' | 'userId' | 'secret'>> & { readonly headers?: string | null },
  set: Readonly<Record<string, unknown>>,
): Promise<WebhookDocument | null> {
  const isSealed = 'secret' in set || 'headers' in set;
  const change = [{ $set: set }, ...(isSealed ? [nameKeys] : [])];
  const { headers, ...rest } = filter;
  const matched =
    headers === null ? { ...rest, headers: { $exists: false } } : { ...rest, ...(headers && { headers }) };
  return durableCollection(webhooks).findOneAndUpdate(matched, change, { returnDocument: 'after' });
}

/** Removes every previous secret whose overlap has ended. */
export async function dropEndedRotations(webhooks: WebhookModel): Promise<void> {
  const ended = { rotation: { $exists: true }, $expr: { $lte: ['$rotation.endsAt', '$$NOW'] } };
  await durableCollection(webhooks).updateMany(ended, [{ $set: { rotation: '$$REMOVE' } }, nameKeys]);
}
