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
  primaryOf,
  readSchemaRecord,
  type SchemaDeps,
  schemaCollection,
} from '../../mongo/schema/prepare-schema.ts';
import type { OpenDatabase, Services } from '../services.ts';

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
  readonly skew: number | undefined;
  readonly lackingIndexes: readonly FoundIndex[] | undefined;
  /** Whether this version may use what the newest version has prepared. */
  readonly isCompatible: boolean | undefined;
  /** Ids of keys that sealed stored secrets, and are not among `secretKeys`. */
  readonly missingKeys: readonly string[] | undefined;
  /** How long a write takes until a majority has it in its journal. Milliseconds. */
  readonly writeTime: number | undefined;
  /** How much of the primary's disk is free, as a share of 1. */
  readonly freeDisk: number | undefined;
  readonly backlog: BacklogState | undefined;
}

export interface HealthReadingsDeps {
  readonly database: Pick<OpenDatabase, 'access'>;
  readonly schema: SchemaDeps;
  readonly missingKeys: Services['webhooks']['missingKeys'];
  readonly backlog: Pick<Services['backlog'], 'oldestDue'>;
  /** Whether a live process makes attempts. */
  readonly hasWorker: () => Promise<boolean>;
}

/**
 * How long the database may take to answer, and how long its clock is used: a caller that asks often costs one request a
 * second. Milliseconds.
 */
const databaseTimeout = 1_000;
/** From when on a backlog is old: the alert and `doctor` wait as long. Seconds. */
export const oldBacklog = 300;

const nothing: DatabaseReadings = {
  skew: undefined,
  lackingIndexes: undefined,
  isCompatible: undefined,
  missingKeys: undefined,
  writeTime: undefined,
  freeDisk: undefined,
  backlog: undefined,
};

/** Makes the function that reads the difference of the clocks, at most once a second. */
function createRecentSkew({ connection }: Pick<SchemaDeps, 'connection'>): () => Promise<number | undefined> {
  const readSkew = createReadSkew(connection);
  let reading: { readonly skew: Promise<number | undefined>; readonly at: number } | undefined;
  return () => {
    const now = performance.now();
    if (!reading || now - reading.at > databaseTimeout) reading = { skew: readSkew(), at: now };
    return reading.skew;
  };
}

/** Makes the function that reads what is due, and looks for a worker only where something is. */
function createReadBacklog({ backlog, hasWorker }: Pick<HealthReadingsDeps, 'backlog' | 'hasWorker'>) {
  return async function read(): Promise<BacklogState> {
    const oldest = await backlog.oldestDue();
    return oldest === null ? { oldestDue: 0, hasWorker: true } : { oldestDue: oldest, hasWorker: await hasWorker() };
  };
}

function inTime<T>(reading: Promise<T>): Promise<T | undefined> {
  return withTimeout(reading, databaseTimeout, false).catch(() => undefined);
}

/** Makes the function that reads what the database says, each value no more often than it is likely to change. */
export function createHealthReadings({ database, schema, missingKeys, ...work }: HealthReadingsDeps) {
  const { access } = database;
  const { connection, prefix } = schema;
  const db = primaryOf(connection);
  const readSkew = createRecentSkew(schema);
  const lackingIndexes = createIndexCheck(schema);
  const compatible = createCachedReading(async () => isCompatible(await readSchemaRecord(db, prefix)), Boolean);
  const keys = createCachedReading(missingKeys, ({ length }) => length === 0);
  const freeDisk = createCachedReading(
    () => readFreeDisk(db),
    (free = 1) => free >= leastFree,
  );
  const backlog = createCachedReading(
    createReadBacklog(work),
    ({ oldestDue, hasWorker }) => oldestDue <= oldBacklog && hasWorker,
  );
  const writeTime = createWriteTime(() => confirmWrites(db, schemaCollection(prefix)));

  return async function read(): Promise<DatabaseReadings> {
    const skew = access.isUnavailable ? undefined : await readSkew();
    // without an answer nothing is known of the rest
    if (skew === undefined) return nothing;
    const [lacking, isOfThisVersion, missing, took, free, due] = await Promise.all([
      inTime(lackingIndexes()),
      inTime(compatible()),
      inTime(keys()),
      writeTime(),
      inTime(freeDisk()),
      inTime(backlog()),
    ]);
    return {
      skew,
      lackingIndexes: lacking,
      isCompatible: isOfThisVersion,
      missingKeys: missing,
      writeTime: took,
      freeDisk: free,
      backlog: due,
    };
  };
}

export type ReadHealth = ReturnType<typeof createHealthReadings>;
