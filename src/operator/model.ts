import { type Model, Schema } from 'mongoose';
import { modelFactory, schemaDate, schemaOptions } from '../mongo/collection.ts';
import type { Durations } from '../mongo/durations.ts';
import type { UpstreamState } from '../proxy/proxy.ts';

/** What a process does: `api` serves requests, `worker` makes delivery attempts, `all` does both. */
export type ProcessRole = 'api' | 'worker' | 'all';

/** One upstream, as one process has met it in the last five minutes. */
export interface UpstreamCounts {
  name: string;
  breaker: UpstreamState['breaker'];
  /** Whether it accepts model calls and answers none. Records of earlier versions have no such field. */
  isHanging?: boolean;
  requests: number;
  errors: number;
  errorCodes: Record<string, number>;
  /** Of calls that were answered, from their arrival to their last byte, by bucket of durations.ts. */
  latency: Durations;
  /** From a request to the head of its response, by the same buckets. */
  firstByte: Durations;
}

/** One process, as it last said of itself. Moments are by the database's clock. */
export interface ProcessInfo {
  /** `prc_…`, new with every start. */
  readonly id: string;
  readonly hostname: string;
  readonly pid: number;
  /** Of the package. */
  readonly version: string;
  /** `api` makes no delivery attempts, `worker` serves no requests. */
  readonly role: ProcessRole;
  readonly startedAt: Date;
  readonly seenAt: Date;
  /** Whether it was seen within 30 s, three times as long as between two renewals. */
  readonly isLive: boolean;
  /** The 99th percentile between the last two renewals, in seconds; `null` where it was not measured. */
  readonly eventLoopLag: number | null;
  /** Delivery attempts that it is sending. */
  readonly attempts: number;
  /** Model calls under way to upstreams. */
  readonly relayedCalls: number;
  /** When its worker's sweep last succeeded; `null` where there was none. */
  readonly lastSweepAt: Date | null;
  /** By how much its clock is ahead of the database's, in seconds; `null` where that is not known. */
  readonly clockSkew: number | null;
}

export interface ProcessDocument extends Omit<ProcessInfo, 'id' | 'isLive'> {
  /** `prc_…` */
  readonly _id: string;
  /** Until when the process counts as live, unless it renews the record. */
  readonly liveUntil: Date;
  /** Since when upstreams are counted. */
  readonly countedSince: Date;
  readonly upstreams: UpstreamCounts[];
}

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

export type ProcessModel = Model<ProcessDocument>;
export type RefusalModel = Model<RefusalDocument>;

/** Seconds. */
const day = 86_400;

const processSchema = new Schema<ProcessDocument>(
  {
    _id: String,
    hostname: { type: String, required: true },
    pid: { type: Number, required: true },
    version: { type: String, required: true },
    role: { type: String, required: true },
    startedAt: { type: schemaDate, required: true },
    seenAt: { type: schemaDate, required: true },
    liveUntil: { type: schemaDate, required: true },
    eventLoopLag: Number,
    attempts: { type: Number, required: true },
    relayedCalls: { type: Number, required: true },
    lastSweepAt: schemaDate,
    clockSkew: Number,
    countedSince: { type: schemaDate, required: true },
    upstreams: { type: Schema.Types.Mixed, required: true },
  },
  // written with w: 1: the next renewal brings back what a failover loses
  schemaOptions,
).index({ liveUntil: 1 }, { name: 'expiry', expireAfterSeconds: day });

const refusalSchema = new Schema<RefusalDocument>(
  {
    _id: String,
    hour: { type: schemaDate, required: true },
    userId: { type: String, default: null },
    counts: { type: Schema.Types.Mixed, required: true },
  },
  // written with w: 1: a failover may lose some of these statistics
  schemaOptions,
)
  // counts are kept for a week, and the day it begins on
  .index({ hour: 1 }, { name: 'expiry', expireAfterSeconds: 8 * day })
  .index({ userId: 1, hour: 1 }, { name: 'userHours' });
export const createProcessModel = modelFactory('Process', 'processes', processSchema);
export const createRefusalModel = modelFactory('Refusal', 'refusals', refusalSchema);
