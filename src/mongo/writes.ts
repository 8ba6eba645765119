import { setTimeout as sleep } from 'node:timers/promises';
import { type Model, mongo } from 'mongoose';
import type { Logger } from '../options/options.ts';
import { durable } from './collection.ts';
import { hasWriteConcernError, isUnavailable } from './unavailable.ts';

/** The result of an `insert`: every document that is not among the failures is stored. */
interface Inserted {
  /** By index. */
  readonly failures: ReadonlyMap<number, mongo.MongoServerError>;
  /** The election in which its primary was chosen, in hexadecimal; absent from a standalone mongod and a mongos. */
  readonly electionId?: string;
}

/** The result of an `update`. */
interface Updated {
  /** Documents that matched. */
  readonly matched: number;
  /** As in {@link Inserted}. */
  readonly electionId?: string;
}

/** A statement of the command `update` (MongoDB's manual, "update", "updates"). */
interface UpdateStatement {
  readonly q: object;
  readonly u: object;
  /** Changes every document that matches. @default false */
  readonly multi?: boolean;
  /** The index that finds the documents. @default the server's choice */
  readonly hint?: object;
}

/**
 * Writes by the bare commands, as durable as `durableSchema`, where the election in which the primary was chosen is needed: it proves that
 * a look-up missed nothing. The driver's own writes do not tell it; they serve for everything else. Nothing is retried, so a write that
 * fails may have been done.
 */
interface BareWrites {
  /** In one command, so of no more documents than fit into it. */
  insertEach(documents: readonly object[]): Promise<Inserted>;
  /** The same. @throws MongoServerError of the first statement that was refused */
  updateEach(statements: readonly UpdateStatement[]): Promise<Updated>;
}

export function bareWrites<T>(model: Model<T>): BareWrites {
  const db = model.db.getClient().db(model.db.name);
  const name = model.collection.collectionName;

  async function run(command: mongo.Document) {
    const options = { ordered: false, writeConcern: durable } as const;
    const { electionId, ...answer } = await db.command({ ...command, ...options }, { ignoreUndefined: true });
    return { ...answer, ...(electionId && { electionId: (electionId as mongo.ObjectId).toHexString() }) } as {
      readonly n: number;
      readonly writeErrors?: readonly mongo.ErrorDescription[];
      readonly electionId?: string;
    };
  }

  return {
    async insertEach(documents) {
      const { writeErrors = [], electionId } = await run({ insert: name, documents });
      const failures = new Map(writeErrors.map((error) => [Number(error.index), new mongo.MongoServerError(error)]));
      return { failures, ...(electionId !== undefined && { electionId }) };
    },
    async updateEach(updates) {
      const { n: matched, writeErrors, electionId } = await run({ update: name, updates });
      if (writeErrors?.[0]) throw new mongo.MongoServerError(writeErrors[0]);
      return { matched, ...(electionId !== undefined && { electionId }) };
    },
  };
}

const duplicateKey = 11_000;

interface ServerError {
  readonly code?: unknown;
  /** The keys of the unique index. */
  readonly keyPattern?: Readonly<Record<string, unknown>>;
}

interface WriteError {
  readonly code: number;
  readonly errmsg: string;
  readonly index: number;
}

interface BulkError {
  readonly writeErrors?: WriteError | readonly WriteError[];
}

/**
 * Whether a write met a document with the same unique key (MongoDB's error 11000).
 * @param key a key that the index must have. @default any index
 */
export function isDuplicateKey(error: unknown, key?: string): boolean {
  const { code, keyPattern } = error as ServerError;
  return code === duplicateKey && (key === undefined || keyPattern?.[key] !== undefined);
}

/**
 * The failures of an unordered bulk write, by index; everything else in it is written.
 * @throws the error itself if the whole write failed, or is not confirmed
 */
export function failuresIn(error: unknown): Map<number, mongo.MongoServerError> {
  const failures = [(error as BulkError).writeErrors ?? []].flat();
  if (failures.length === 0 || hasWriteConcernError(error)) throw error;
  return new Map(
    failures.map(({ index, code, errmsg }) => [index, new mongo.MongoServerError({ index, code, errmsg })]),
  );
}

/**
 * The indexes of the documents in a bulk write that met a duplicate key.
 * @throws the error itself if anything else failed, or the write is not confirmed
 */
export function duplicatesIn(error: unknown): Set<number> {
  const failures = failuresIn(error);
  if ([...failures.values()].some((failure) => !isDuplicateKey(failure))) throw error;
  return new Set(failures.keys());
}

/** The waits between tries: together longer than any election. The last one repeats. Milliseconds. */
const usualWaits: readonly number[] = [50, 100, 250, 500, 1_000, 2_000, 2_000, 2_000, 4_000, 4_000, 4_000];

export interface PersistDeps {
  readonly logger: Logger;
  /** Aborted when the gateway has closed: then nothing is retried. @default never */
  readonly closed?: AbortSignal | undefined;
  /** Milliseconds. @default 20 s in all */
  readonly waits?: readonly number[];
}

/**
 * Repeats a write for as long as the database is unavailable. Only for writes that do nothing the second time.
 * @throws any other error, if it stays after about 20 s of retries; the last error if the gateway has closed
 */
export async function persist<T>(
  write: () => Promise<T>,
  { logger, closed, waits = usualWaits }: PersistDeps,
): Promise<T> {
  const failures = { unavailable: 0, other: 0 };
  for (;;) {
    try {
      return await write();
    } catch (error) {
      const kind = isUnavailable(error) ? 'unavailable' : 'other';
      const wait = waits[failures[kind]];
      failures[kind] += 1;
      const isLast = kind === 'other' && wait === undefined;
      if (isLast || closed?.aborted) throw error;
      // a long outage must not fill the log
      if (wait !== undefined) logger.warn('a write is tried again', { reason: String(error) });
      await sleep(wait ?? waits.at(-1), undefined, closed && { signal: closed }).catch(() => {});
      if (closed?.aborted) throw error;
    }
  }
}
