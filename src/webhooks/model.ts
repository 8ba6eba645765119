import { type Model, type mongo, Schema } from 'mongoose';
import { durableCollection, modelFactory, schemaDate, schemaOptions } from '../mongo/collection.ts';

/** A rotation: the previous secret also signs until `endsAt`. */
export interface StoredRotation {
  /** Where it is stored, sealed for this document and field. */
  previousSecret: string;
  /** By the database's clock. */
  endsAt: Date;
  /** Which of the two secrets signs `x-service-signature`, which has room for one signature. */
  serviceSignature: 'new' | 'previous';
}

/** Set if the gateway has set the webhook inactive. */
export interface StoredDisabling {
  /** By the database's clock. */
  at: Date;
  reason: 'gone' | 'failing';
}

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

/** Where the documents of webhooks are read and written. */
export type Webhooks = ReturnType<typeof durableCollection<WebhookDocument>>;

const rotation = new Schema<StoredRotation>(
  {
    previousSecret: { type: String, required: true },
    endsAt: { type: schemaDate, required: true },
    serviceSignature: { type: String, enum: ['new', 'previous'], required: true },
  },
  { _id: false, strict: 'throw' },
);

const disabling = new Schema<StoredDisabling>(
  { at: { type: schemaDate, required: true }, reason: { type: String, enum: ['gone', 'failing'], required: true } },
  { _id: false, strict: 'throw' },
);

const webhookSchema = new Schema<WebhookDocument>(
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
    enabledAt: schemaDate,
    disabled: disabling,
    secret: { type: String, required: true },
    rotation,
    sealedWith: { type: [String], required: true },
    createdAt: { type: schemaDate, required: true },
  },
  schemaOptions,
)
  .index({ userId: 1, slot: 1 }, { name: 'slot', unique: true })
  .index({ userId: 1, _id: 1 }, { name: 'userWebhooks' })
  .index({ userId: 1, events: 1, _id: 1, active: 1, filters: 1 }, { name: 'filteredSubscribers' })
  .index({ sealedWith: 1, _id: 1 }, { name: 'sealedWith' })
  .index({ _id: 1, 'disabled.at': 1 }, { name: 'disabled', partialFilterExpression: { disabled: { $exists: true } } });

/** The webhooks of one gateway: model `<prefix>Webhook`, collection `<prefix>webhooks`. */
export const createWebhookModel = modelFactory('Webhook', 'webhooks', webhookSchema);

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
  filter: mongo.Filter<WebhookDocument>,
  set: Readonly<Record<string, unknown>>,
): Promise<WebhookDocument | null> {
  const isSealed = 'secret' in set || 'headers' in set;
  const change = [{ $set: set }, ...(isSealed ? [nameKeys] : [])];
  return durableCollection(webhooks).findOneAndUpdate(filter, change, { returnDocument: 'after' });
}

/** Removes every previous secret whose overlap has ended. */
export async function dropEndedRotations(webhooks: WebhookModel): Promise<void> {
  const ended = { rotation: { $exists: true }, $expr: { $lte: ['$rotation.endsAt', '$$NOW'] } };
  await durableCollection(webhooks).updateMany(ended, [{ $set: { rotation: '$$REMOVE' } }, nameKeys]);
}

/** The attempts to one webhook that ended in one hour. */
export interface TallyDocument {
  /** The webhook's id, a colon, and the hour in ISO 8601, so that a range of ids is a period of one webhook. */
  _id: string;
  hour: Date;
  succeeded: number;
  failed: number;
  /** Counts of durations, by bucket of durations.ts. */
  durations: Record<string, number>;
}

export interface Failure {
  /** When it failed, by the database's clock. */
  at: Date;
  deliveryId: string;
  /** Absent if the receiver did not answer. */
  status?: number;
  code: string;
}

/** The health of one webhook, from all its attempts. */
export interface HealthDocument {
  /** The webhook's id. */
  _id: string;
  lastSuccessAt?: Date | null;
  lastFailure?: Failure;
  /** The first failure since the last success. */
  failingSince?: Date;
  /** Failures since the last success. */
  failures?: number;
  /** `failingSince` of the failing webhook that the host was told of; absent unless it was told, and again when it was told of the recovery. */
  reportedFailingSince?: Date;
  /** When the host last decided to keep the failing webhook. */
  sparedAt?: Date;
  /** When this document was last written. */
  updatedAt: Date;
}

export type TallyModel = Model<TallyDocument>;
export type HealthModel = Model<HealthDocument>;

const day = 86_400;

// both are written with w: 1: a failover may lose some of these statistics; the deliveries lose nothing
const tallySchema = new Schema<TallyDocument>(
  {
    _id: String,
    hour: { type: schemaDate, required: true },
    succeeded: { type: Number, required: true },
    failed: { type: Number, required: true },
    durations: { type: Schema.Types.Mixed, required: true },
  },
  schemaOptions,
).index({ hour: 1 }, { name: 'expiry', expireAfterSeconds: 8 * day });

const failure = new Schema<Failure>(
  {
    at: { type: schemaDate, required: true },
    deliveryId: { type: String, required: true },
    status: Number,
    code: { type: String, required: true },
  },
  { _id: false, strict: 'throw' },
);

const healthSchema = new Schema<HealthDocument>(
  {
    _id: String,
    lastSuccessAt: schemaDate,
    lastFailure: failure,
    failingSince: schemaDate,
    failures: Number,
    reportedFailingSince: schemaDate,
    sparedAt: schemaDate,
    updatedAt: { type: schemaDate, required: true },
  },
  schemaOptions,
)
  .index({ updatedAt: 1 }, { name: 'expiry', expireAfterSeconds: 400 * day })
  .index(
    { _id: 1, reportedFailingSince: 1 },
    { name: 'failing', partialFilterExpression: { reportedFailingSince: { $exists: true } } },
  );

/** The hours of one gateway's webhooks: model `<prefix>Tally`, collection `<prefix>tallies`. */
export const createTallyModel = modelFactory('Tally', 'tallies', tallySchema);

/** The health of one gateway's webhooks: model `<prefix>Health`, collection `<prefix>health`. */
export const createHealthModel = modelFactory('Health', 'health', healthSchema);
