import { setTimeout as sleep } from 'node:timers/promises';
import { type Model, mongo } from 'mongoose';
import type { Logger } from '../options/options.ts';
import { createCommandTimeout, databaseOf, durable } from './collection.ts';
import { hasWriteConcernError, isUnavailable } from './unavailable.ts';

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
 * Writes by the bare commands, as durable as `durableCollection`, where the election in which the primary was chosen is needed: it proves that
 * a look-up missed nothing. The driver's own writes do not tell it; they serve for everything else. Nothing is retried, so a write that
 * fails may have been done. `electionId` is in hexadecimal; absent from a standalone mongod and a mongos.
 */
export function bareWrites<T>(model: Model<T>) {
  const db = databaseOf(model.db);
  const timeout = createCommandTimeout();
  const name = model.collection.collectionName;

  async function run(command: mongo.Document) {
    const options = { ordered: false, writeConcern: durable } as const;
    const sending = { ignoreUndefined: true, signal: timeout() };
    const { electionId, n, writeErrors } = await db.command({ ...command, ...options }, sending);
    return {
      matched: n as number,
      writeErrors: (writeErrors ?? []) as readonly mongo.ErrorDescription[],
      election: electionId ? { electionId: (electionId as mongo.ObjectId).toHexString() } : {},
    };
  }

  return {
    /**
     * Inserts in one command, so no more documents than fit into it.
     * @returns `failures` by index: every other document is stored
     */
    async insertEach(documents: readonly object[]) {
      const { writeErrors, election } = await run({ insert: name, documents });
      const failures = new Map(writeErrors.map((error) => [Number(error.index), new mongo.MongoServerError(error)]));
      return { failures, ...election };
    },
    /** Updates in one command. @throws MongoServerError of the first statement that was refused */
    async updateEach(updates: readonly UpdateStatement[]) {
      const { matched, writeErrors, election } = await run({ update: name, updates });
      if (writeErrors[0]) throw new mongo.MongoServerError(writeErrors[0]);
      return { matched, ...election };
    },
  };
}

const duplicateKey = 11_000;

/**
 * Whether a write met a document with the same unique key (MongoDB's error 11000).
 * @param key a key that the index must have. @default any index
 */
export function isDuplicateKey(error: unknown, key?: string): boolean {
  const { code, keyPattern } = error as mongo.MongoServerError;
  return code === duplicateKey && (key === undefined || keyPattern?.[key] !== undefined);
}

/**
 * The failures of an unordered bulk write, by index; everything else in it is written.
 * @throws the error itself if the whole write failed, or is not confirmed
 */
export function failuresIn(error: unknown): Map<number, mongo.MongoServerError> {
  const failures = [(error as Partial<mongo.MongoBulkWriteError>).writeErrors ?? []].flat();
  if (failures.length === 0 || hasWriteConcernError(error)) throw error;
  return new Map(
    failures.map(({ index, code, errmsg = '' }) => [index, new mongo.MongoServerError({ index, code, errmsg })]),
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
