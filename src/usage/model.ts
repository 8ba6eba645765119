import { type Connection, type Model, Schema } from 'mongoose';
import type { CallEnding, UsageRecord } from '../options.ts';

/** One model call as it is stored: open until it has ended. */
export interface UsageDocument extends Omit<UsageRecord, 'id' | 'ending'> {
  /** `use_…` */
  readonly _id: string;
  /** `null` while the call is under way. */
  readonly ending: CallEnding | null;
}

export type UsageModel = Model<UsageDocument>;

const schema = new Schema<UsageDocument>(
  {
    _id: String,
    requestId: { type: String, required: true },
    userId: { type: String, required: true },
    keyId: { type: String, default: null },
    endpoint: { type: String, required: true },
    model: { type: String, default: null },
    upstream: { type: String, required: true },
    inputTokens: { type: Number, required: true },
    outputTokens: { type: Number, required: true },
    images: { type: Number, required: true },
    estimated: { type: Boolean, required: true },
    ending: { type: String, default: null },
    startedAt: { type: Date, required: true },
    durationMs: { type: Number, required: true },
    firstByteMs: { type: Number, required: true },
  },
  {
    strict: 'throw',
    strictQuery: 'throw',
    versionKey: false,
    autoIndex: false,
    autoCreate: false,
    writeConcern: { w: 'majority', j: true },
  },
)
  .index({ userId: 1, startedAt: 1 }, { name: 'userPeriod' })
  .index({ startedAt: 1 }, { name: 'open', partialFilterExpression: { ending: null } });

/** The usage of one gateway: model `<prefix>Usage`, collection `<prefix>usage`. Indexes are built by `createIndexes()`. */
export function createUsageModel(connection: Connection, prefix: string): UsageModel {
  const name = `${prefix}Usage`;
  return (
    (connection.models[name] as UsageModel | undefined) ??
    connection.model<UsageDocument>(name, schema.clone(), `${prefix}usage`)
  );
}
