import { setTimeout as sleep } from 'node:timers/promises';
import { type ClientSession, type Model, mongo } from 'mongoose';
import type { Logger } from '../options/options.ts';
import { durable } from './collection.ts';
import { hasWriteConcernError, isUnavailable } from './unavailable.ts';

/** Statements in one command: with the largest documents that are written this way, it still fits into a protocol message. */
const maxStatements = 1_000;

interface WriteAnswer {
  readonly n: number;
  readonly writeErrors?: readonly mongo.ErrorDescription[];
  /** Of the statements that inserted their document. */
  readonly upserted?: readonly { readonly index: number }[];
  /** Absent from a standalone mongod and a mongos. */
  readonly electionId?: mongo.ObjectId;
}

/** The result of an `insert`: every document that is not among the failures is stored. */
interface Inserted {
  /** By index. */
  readonly failures: ReadonlyMap<number, mongo.MongoServerError>;
  /** The election in which its primary was chosen, in hexadecimal; absent if the server does not report it. */
  readonly electionId?: string;
}

/** The result of an `update`. */
interface Updated {
  /** Documents that matched. */
  readonly matched: number;
  /** Indexes of the statements that inserted their document. */
  readonly inserted: ReadonlySet<number>;
  /** As in {@link Inserted}. */
  readonly electionId?: string;
}

/** A statement of the command `update` (MongoDB's manual, "update", "updates"). */
export interface UpdateStatement {
  readonly q: object;
  readonly u: object;
  /** Inserts a document if none matches. @default false */
  readonly upsert?: boolean;
  /** Changes every document that matches. @default false */
  readonly multi?: boolean;
  /** The index that finds the documents. @default the server's choice */
  readonly hint?: object;
}

/**
 * Many small writes by the bare commands, as durable as `durableSchema`. Their answers name the election in which the primary was chosen,
 * which proves that a look-up missed nothing; the driver's bulk writes do not. Nothing is retried, so a write that fails outside a
 * transaction may have been done.
 */
export interface BareWrites {
  /** @throws MongoServerError of the first document that was refused */
  insert(documents: readonly object[], session?: ClientSession): Promise<void>;
  /** In one command, so of no more documents than fit into it. */
  insertEach(documents: readonly object[]): Promise<Inserted>;
  /** Resolves to the number of documents that matched. @throws MongoServerError of the first statement that was refused */
  update(statements: readonly UpdateStatement[]): Promise<number>;
  /** The same in one command, with the result of each statement. @throws MongoServerError of the first statement that was refused */
  updateEach(statements: readonly UpdateStatement[]): Promise<Updated>;
}

export function bareWrites<T>(model: Model<T>): BareWrites {
  const db = model.db.getClient().db(model.db.name);
  const name = model.collection.collectionName;

  async function run(command: mongo.Document, session?: ClientSession): Promise<WriteAnswer> {
    // outside the transaction the driver would write all the same, and part of an aborted transaction would be stored
    if (session && !session.inTransaction()) throw new Error('the transaction of a write has ended');
    const concern = session ? {} : { writeConcern: durable };
    const options = { ignoreUndefined: true, ...(session && { session }) };
    return (await db.command({ ...command, ordered: false, ...concern }, options)) as unknown as WriteAnswer;
  }

  async function inCommands<Statement>(
    statements: readonly Statement[],
    toCommand: (part: readonly Statement[]) => mongo.Document,
    session?: ClientSession,
  ): Promise<WriteAnswer[]> {
    const answers: WriteAnswer[] = [];
    for (let i = 0; i < statements.length; i += maxStatements) {
      const answer = await run(toCommand(statements.slice(i, i + maxStatements)), session);
      if (answer.writeErrors?.[0]) throw new mongo.MongoServerError(answer.writeErrors[0]);
      answers.push(answer);
    }
    return answers;
  }

  return {
    async insert(documents, session) {
      await inCommands(documents, (part) => ({ insert: name, documents: part }), session);
    },
    async insertEach(documents) {
      const { writeErrors = [], electionId } = await run({ insert: name, documents });
      const failures = new Map(writeErrors.map((error) => [Number(error.index), new mongo.MongoServerError(error)]));
      return { failures, ...(electionId && { electionId: electionId.toHexString() }) };
    },
    async update(statements) {
      const answers = await inCommands(statements, (updates) => ({ update: name, updates }));
      return answers.reduce((matched, { n }) => matched + n, 0);
    },
    async updateEach(updates) {
      const { n, upserted = [], writeErrors, electionId } = await run({ update: name, updates });
      if (writeErrors?.[0]) throw new mongo.MongoServerError(writeErrors[0]);
      const inserted = new Set(upserted.map(({ index }) => index));
      return { matched: n - inserted.size, inserted, ...(electionId && { electionId: electionId.toHexString() }) };
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
  readonly code: unknown;
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
export function failuresIn(error: unknown): Map<number, unknown> {
  const failures = [(error as BulkError).writeErrors ?? []].flat();
  if (failures.length === 0 || hasWriteConcernError(error)) throw error;
  return new Map(failures.map((failure) => [failure.index, failure]));
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
