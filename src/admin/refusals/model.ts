import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../../mongo/collection.ts';

/** What was refused to one account in one hour. */
export interface RefusalDocument {
  /** Hour and account, as JSON. */
  _id: string;
  /** When the hour began. */
  hour: Date;
  /** `null` for requests whose account did not become known. */
  userId: string | null;
  /** How often, by error code. */
  counts: Record<string, number>;
}

export type RefusalModel = Model<RefusalDocument>;

/** How long counts are kept: a week, and the day it begins on. Seconds. */
const retention = 8 * 86_400;

const schema = new Schema<RefusalDocument>(
  {
    _id: String,
    hour: { type: Date, required: true },
    userId: { type: String, default: null },
    counts: { type: Schema.Types.Mixed, required: true },
  },
  // a failover may lose some of these statistics
  { ...durableSchema, writeConcern: { w: 1 } },
)
  .index({ hour: 1 }, { name: 'expiry', expireAfterSeconds: retention })
  .index({ userId: 1, hour: 1 }, { name: 'userHours' });

/** What one gateway has refused: model `<prefix>Refusal`, collection `<prefix>refusals`. */
export function createRefusalModel(connection: Connection, prefix: string): RefusalModel {
  return modelOf(connection, `${prefix}Refusal`, schema, `${prefix}refusals`);
}
