import { type Connection, type Model, Schema } from 'mongoose';

/** One API key, as it is stored: never its text. */
export interface KeyDocument {
  /** `key_…` */
  _id: string;
  /** The account it belongs to. */
  userId: string;
  /** What its owner calls it; may be empty. */
  name: string;
  /** SHA-256 of the whole key text, in hexadecimal: 256 random bits need no slow hash. */
  hash: string;
  createdAt: Date;
  /** `null` as long as the key is good. */
  revokedAt: Date | null;
}

export type KeyModel = Model<KeyDocument>;

const schema = new Schema<KeyDocument>(
  {
    _id: String,
    userId: { type: String, required: true },
    name: { type: String, default: '' },
    hash: { type: String, required: true },
    createdAt: { type: Date, required: true },
    revokedAt: { type: Date, default: null },
  },
  {
    strict: 'throw',
    strictQuery: 'throw',
    versionKey: false,
    autoIndex: false,
    autoCreate: false,
    // whatever the host's connection says: a revocation must be seen at once and survive a failover
    read: 'primary',
    writeConcern: { w: 'majority', j: true },
  },
).index({ userId: 1, _id: 1 }, { name: 'userKeys' });

/** The API keys of one gateway: model `<prefix>Key`, collection `<prefix>keys`. Indexes are built by `createIndexes()`. */
export function createKeyModel(connection: Connection, prefix: string): KeyModel {
  const name = `${prefix}Key`;
  return (
    (connection.models[name] as KeyModel | undefined) ??
    connection.model<KeyDocument>(name, schema.clone(), `${prefix}keys`)
  );
}
