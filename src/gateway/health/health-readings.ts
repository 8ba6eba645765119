import { databaseOf } from '../../mongo/collection.ts';
import { withTimeout } from '../../mongo/periodic.ts';
import {
  confirmWrites,
  createCachedReading,
  createReadSkew,
  createWriteTime,
  leastFree,
  readFreeDisk,
} from '../../mongo/probes/probes.ts';
import type { FoundIndex } from '../../mongo/schema/indexes.ts';
import {
  createIndexCheck,
  isCompatible,
  readSchemaRecord,
  type SchemaDeps,
  schemaCollection,
} from '../../mongo/schema/prepare-schema.ts';
import { hasWorker } from '../../operator/processes.ts';
import type { Services } from '../services.ts';

/** What is due, and whether anybody sees to it. */
interface BacklogState {
  /** How long the oldest delivery or event has been due that no process has claimed; 0 where none is. Seconds. */
  readonly oldestDue: number;
  /** Whether a live process makes attempts, or none is due. */
  readonly hasWorker: boolean;
}

/** What the database says for the health of a gateway. `undefined` where it does not say so in time. */
export interface DatabaseReadings {
  /** By how much this machine's clock is ahead of the database's; negative where it is behind. Milliseconds. */
  readonly skew?: number | undefined;
  readonly lackingIndexes?: readonly FoundIndex[] | undefined;
  /** Whether this version may use what the newest version has prepared. */
  readonly isCompatible?: boolean | undefined;
  /** Ids of keys that sealed stored secrets, and are not among `secretKeys`. */
  readonly missingKeys?: readonly string[] | undefined;
  /** How long a write takes until a majority has it in its journal. Milliseconds. */
  readonly writeTime?: number | undefined;
  /** How much of the primary's disk is free, as a share of 1. */
  readonly freeDisk?: number | undefined;
  readonly backlog?: BacklogState | undefined;
}

/**
 * How long the database may take to answer, and how long its clock is used: a caller that asks often costs one request a
 * second. Milliseconds.
 */
const databaseTimeout = 1_000;
/** From when on a backlog is old: the alert and `doctor` wait as long. Seconds. */
export const oldBacklog = 300;

function inTime<T>(reading: Promise<T>): Promise<T | undefined> {
  return withTimeout(reading, databaseTimeout, false).catch(() => undefined);
}

/** Makes the function that reads what the database says, each value no more often than it is likely to change. */
export function createHealthReadings(services: Services, schema: SchemaDeps) {
  const { connection, prefix } = schema;
  const db = databaseOf(connection);
  const readSkew = createCachedReading(createReadSkew(connection), () => true, databaseTimeout);
  const readIndexes = createIndexCheck(schema);
  const readCompatible = createCachedReading(async () => isCompatible(await readSchemaRecord(db, prefix)), Boolean);
  const readKeys = createCachedReading(services.webhooks.missingKeys, ({ length }) => length === 0);
  const readDisk = createCachedReading(
    () => readFreeDisk(db),
    (free = 1) => free >= leastFree,
  );
  /** Looks for a worker only where something is due. */
  async function readDue(): Promise<BacklogState> {
    const oldest = await services.backlog.oldestDue();
    return { oldestDue: oldest ?? 0, hasWorker: oldest === null || (await hasWorker(services.models.processes)) };
  }
  const readBacklog = createCachedReading(readDue, (due) => due.oldestDue <= oldBacklog && due.hasWorker);
  const readWriteTime = createWriteTime(() => confirmWrites(db, schemaCollection(prefix)));

  return async function read(): Promise<DatabaseReadings> {
    const skew = services.access.isUnavailable ? undefined : await readSkew();
    // without an answer nothing is known of the rest
    if (skew === undefined) return {};
    const [lackingIndexes, isCompatible, missingKeys, writeTime, freeDisk, backlog] = await Promise.all([
      inTime(readIndexes()),
      inTime(readCompatible()),
      inTime(readKeys()),
      readWriteTime(),
      inTime(readDisk()),
      inTime(readBacklog()),
    ]);
    return { skew, lackingIndexes, isCompatible, missingKeys, writeTime, freeDisk, backlog };
  };
}
