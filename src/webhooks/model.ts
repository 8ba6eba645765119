import mongoose, { type Connection, type Model, Schema } from 'mongoose';

/** One registered webhook, as it is stored. */
export interface WebhookDocument {
  /** `wh_…` */
  _id: string;
  /** The account it belongs to. */
  userId: string;
  /** Its place among the account's webhooks: unique, so that no race exceeds how many there may be. */
  slot: number;
  url: string;
  events: string[];
  active: boolean;
  /** Sealed; bound to this document and field. */
  secret: string;
  createdAt: Date;
}

export type WebhookModel = Model<WebhookDocument>;

const schema = new Schema<WebhookDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    slot: { type: Number, required: true },
    url: { type: String, required: true },
    events: { type: [String], required: true },
    active: { type: Boolean, required: true },
    secret: { type: String, required: true },
    createdAt: { type: Date, required: true },
  },
  {
    strict: 'throw',
    strictQuery: 'throw',
    versionKey: false,
    autoIndex: false,
    autoCreate: false,
    // whatever the host's connection says: a pause must be seen at once and survive a failover
    read: 'primary',
    writeConcern: { w: 'majority', j: true },
  },
)
  .index({ userId: 1, slot: 1 }, { name: 'slot', unique: true })
  .index({ userId: 1, _id: 1 }, { name: 'userWebhooks' })
  .index({ userId: 1, events: 1, _id: 1, active: 1 }, { name: 'subscribers' });

/** The webhooks of one gateway: model `<prefix>Webhook`, collection `<prefix>webhooks`. Indexes are built by `createIndexes()`. */
export function createWebhookModel(connection: Connection, prefix: string): WebhookModel {
  const name = `${prefix}Webhook`;
  return (
    (connection.models[name] as WebhookModel | undefined) ??
    connection.model<WebhookDocument>(name, schema.clone(), `${prefix}webhooks`)
  );
}

/** Matches the ids that follow one; marked as ours, for a host may have switched `sanitizeFilter` on for its whole connection. */
export function idsAfter(id: string): { $gt: string } {
  return mongoose.trusted({ $gt: id });
}
