import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../../mongo/collection.ts';

/** One completed payment. It is stored permanently, so that it cannot be booked twice. */
export interface PaymentDocument {
  /** The payment's id, `pay_…` or `pi_…`, as the host's payment processor has it. */
  _id: string;
  userId: string;
  amount: number;
  currency: string;
  creditsAdded: number;
  /** The id of its `payment.completed`. */
  eventId: string;
  /** The event's `created`. */
  created: Date;
}

export type PaymentModel = Model<PaymentDocument>;

const schema = new Schema<PaymentDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    amount: { type: Number, required: true },
    currency: { type: String, required: true },
    creditsAdded: { type: Number, required: true },
    eventId: { type: String, required: true },
    created: { type: Date, required: true },
  },
  durableSchema,
);

/** The payments of one gateway: model `<prefix>Payment`, collection `<prefix>payments`. */
export function createPaymentModel(connection: Connection, prefix: string): PaymentModel {
  return modelOf(connection, `${prefix}Payment`, schema, `${prefix}payments`);
}
