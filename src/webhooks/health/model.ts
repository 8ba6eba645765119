import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../../mongo/collection.ts';

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

/** An attempt that failed. */
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

// a failover may lose some of these statistics; the deliveries lose nothing
const schemaOptions = { ...durableSchema, writeConcern: { w: 1 } } as const;

const tallySchema = new Schema<TallyDocument>(
  {
    _id: String,
    hour: { type: Date, required: true },
    succeeded: { type: Number, required: true },
    failed: { type: Number, required: true },
    durations: { type: Schema.Types.Mixed, required: true },
  },
  schemaOptions,
).index({ hour: 1 }, { name: 'expiry', expireAfterSeconds: 8 * day });

const failure = new Schema<Failure>(
  {
    at: { type: Date, required: true },
    deliveryId: { type: String, required: true },
    status: Number,
    code: { type: String, required: true },
  },
  { _id: false, strict: 'throw' },
);

const healthSchema = new Schema<HealthDocument>(
  {
    _id: String,
    lastSuccessAt: Date,
    lastFailure: failure,
    failingSince: Date,
    failures: Number,
    reportedFailingSince: Date,
    sparedAt: Date,
    updatedAt: { type: Date, required: true },
  },
  schemaOptions,
)
  .index({ updatedAt: 1 }, { name: 'expiry', expireAfterSeconds: 400 * day })
  .index(
    { _id: 1, reportedFailingSince: 1 },
    { name: 'failing', partialFilterExpression: { reportedFailingSince: { $exists: true } } },
  );

/** The hours of one gateway's webhooks: model `<prefix>Tally`, collection `<prefix>tallies`. */
export function createTallyModel(connection: Connection, prefix: string): TallyModel {
  return modelOf(connection, `${prefix}Tally`, tallySchema, `${prefix}tallies`);
}

/** The health of one gateway's webhooks: model `<prefix>Health`, collection `<prefix>health`. */
export function createHealthModel(connection: Connection, prefix: string): HealthModel {
  return modelOf(connection, `${prefix}Health`, healthSchema, `${prefix}health`);
}
