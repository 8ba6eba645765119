import { type Model, Schema } from 'mongoose';
import { modelFactory, schemaDate, schemaOptions } from '../mongo/collection.ts';

/** When requests may be sent to a webhook with a rate limit. Moments are milliseconds since 1970, with fractions. */
export interface SendRateDocument {
  /** The webhook's id. */
  _id: string;
  /** The moment of the next permit, by the database's clock. */
  nextAt: number;
  /** Of the last permits: the moment of the first one, how many there are, and when they were asked for. */
  first: number;
  granted: number;
  askedAt: number;
  /** When it was last used; a day later it is no longer needed. */
  usedAt: Date;
}

export type SendRateModel = Model<SendRateDocument>;

const sendRateSchema = new Schema<SendRateDocument>(
  {
    _id: String,
    nextAt: { type: Number, required: true },
    first: { type: Number, required: true },
    granted: { type: Number, required: true },
    askedAt: { type: Number, required: true },
    usedAt: { type: schemaDate, required: true },
  },
  schemaOptions,
).index({ usedAt: 1 }, { name: 'expiry', expireAfterSeconds: 86_400 });
export const createSendRateModel = modelFactory('SendRate', 'sendrates', sendRateSchema);
