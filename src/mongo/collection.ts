import { type ClientSession, type Connection, type Model, mongo, type Schema } from 'mongoose';

/** How everything is written that must not be lost. */
const durable = { w: 'majority', j: true } as const;

/**
 * What every transaction states beside its read concern: it takes what is missing from the host's connection, which may
 * prefer secondaries, and the driver lets a transaction read from the primary only.
 */
export const durableTransaction = { writeConcern: durable, readPreference: 'primary' } as const;

/**
 * What every schema is made with. A field or a filter that the schema does not know throws: mongoose would drop it, and
 * a filter without its misspelt key matches everything. Indexes are built by `createIndexes()` and nothing by itself.
 * Reads from the primary and writes acknowledged by a majority and journaled, whatever the host's connection says:
 * a revocation or a pause is seen at once and survives a failover.
 */
export const durableSchema = {
  strict: 'throw',
  strictQuery: 'throw',
  versionKey: false,
  autoIndex: false,
  autoCreate: false,
  read: 'primary',
  writeConcern: durable,
} as const;

/** The connection's model of that name, made if it has none: a second gateway of the same prefix shares it. */
export function modelOf<T>(connection: Connection, name: string, schema: Schema<T>, collection: string): Model<T> {
  const existing = connection.models[name] as Model<T> | undefined;
  return existing ?? connection.model<T>(name, schema.clone(), collection);
}

/**
 * The driver's collection behind a model, as durable as `durableSchema`; mongoose's documents stay off the hot path.
 * One acknowledged write lost is one event lost.
 */
export function durableCollection<T extends mongo.Document>(model: Model<T>): mongo.Collection<T> {
  return model.db
    .getClient()
    .db(model.db.name)
    .collection<T>(model.collection.collectionName, {
      writeConcern: { w: durable.w, journal: durable.j },
      readPreference: 'primary',
      promoteBuffers: true,
      ignoreUndefined: true,
    });
}

/**
 * What an upsert of one document sets so that it inserts `document`, with `computed` by the server's clock, and leaves the one that is
 * there as it is.
 * @param required a field that every stored document has, and that is no part of the filter: its absence says that there is none
 */
export function insertOnly(document: object, computed: Readonly<Record<string, unknown>>, required: string) {
  const isMissing = { $eq: [{ $type: `$${required}` }, 'missing'] };
  const inserted = { $mergeObjects: [{ $literal: document }, computed] };
  return [{ $replaceWith: { $cond: [isMissing, inserted, '$$ROOT'] } }];
}

/** For reads that are bounded anyway: of 102 documents the server would keep back one until it is asked again. */
export const inOneBatch = { batchSize: 100_000 } as const;

/** The most documents of one command; with the largest of those that are written so, it fits into a message of the protocol. */
const most = 1_000;

interface WriteAnswer {
  readonly n: number;
  readonly writeErrors?: readonly mongo.ErrorDescription[];
  /** Of the statements that inserted their document. */
  readonly upserted?: readonly { readonly index: number }[];
  /** Absent from a standalone mongod and a mongos. */
  readonly electionId?: mongo.ObjectId;
}

/** What an `insert` has done; what it does not name as failed is stored. */
export interface Inserted {
  /** By place. */
  readonly failures: ReadonlyMap<number, mongo.MongoServerError>;
  /** In which election its primary was chosen, in hexadecimal; absent where the server does not tell. */
  readonly electionId?: string;
}

/** What an `update` has done. */
export interface Updated {
  /** Documents that were met. */
  readonly met: number;
  /** Statements that inserted their document, by place. */
  readonly inserted: ReadonlySet<number>;
  /** As in {@link Inserted}. */
  readonly electionId?: string;
}

/** A statement of the command `update` (MongoDB's manual, "update", "updates"). */
export interface UpdateStatement {
  readonly q: object;
  readonly u: object;
  /** Whether a document is inserted where none is met. @default false */
  readonly upsert?: boolean;
  /** Whether it is for every document that is met. @default false */
  readonly multi?: boolean;
}

/**
 * Many small writes by the bare commands, as durable as `durableSchema`. By the driver's bulk writes, which look at every document twice
 * more and tell of no election, a delivery takes 1.12 times the CPU of gateway and mongod with one webhook (0.94 to 1.18 in five
 * interleaved rounds), 1.11 times in a fan-out to ten (0.92 to 1.20). Without a transaction nothing is tried again, so that a write that fails may have been done.
 */
export interface BareWrites {
  /** @throws MongoServerError of the first document that was refused */
  insert(documents: readonly object[], session?: ClientSession): Promise<void>;
  /** Of as many as fit into one command. */
  insertEach(documents: readonly object[]): Promise<Inserted>;
  /** Resolves to how many documents were met. @throws MongoServerError of the first statement that was refused */
  update(statements: readonly UpdateStatement[]): Promise<number>;
  /** The same of as many as fit into one command, and what came of them. @throws MongoServerError of the first statement that was refused */
  updateEach(statements: readonly UpdateStatement[]): Promise<Updated>;
}

export function bareWrites<T>(model: Model<T>): BareWrites {
  const db = model.db.getClient().db(model.db.name);
  const name = model.collection.collectionName;

  async function run(command: mongo.Document, session?: ClientSession): Promise<WriteAnswer> {
    // the driver would make the write by itself: of a transaction that was given up, a part would be there
    if (session && !session.inTransaction()) throw new Error('the transaction of a write has ended');
    const concern = session ? {} : { writeConcern: durable };
    const options = { ignoreUndefined: true, ...(session && { session }) };
    return (await db.command({ ...command, ordered: false, ...concern }, options)) as unknown as WriteAnswer;
  }

  async function inCommands<One>(
    all: readonly One[],
    toCommand: (part: readonly One[]) => mongo.Document,
    session?: ClientSession,
  ): Promise<WriteAnswer[]> {
    const answers: WriteAnswer[] = [];
    for (let i = 0; i < all.length; i += most) {
      const answer = await run(toCommand(all.slice(i, i + most)), session);
      if (answer.writeErrors?.[0]) throw new mongo.MongoServerError(answer.writeErrors[0]);
      answers.push(answer);
    }
    return answers;
  }

  return {
    async insert(all, session) {
      await inCommands(all, (documents) => ({ insert: name, documents }), session);
    },
    async insertEach(documents) {
      const { writeErrors = [], electionId } = await run({ insert: name, documents });
      const failures = new Map(writeErrors.map((one) => [Number(one.index), new mongo.MongoServerError(one)]));
      return { failures, ...(electionId && { electionId: electionId.toHexString() }) };
    },
    async update(all) {
      const answers = await inCommands(all, (updates) => ({ update: name, updates }));
      return answers.reduce((met, { n }) => met + n, 0);
    },
    async updateEach(updates) {
      const { n, upserted = [], writeErrors, electionId } = await run({ update: name, updates });
      if (writeErrors?.[0]) throw new mongo.MongoServerError(writeErrors[0]);
      const inserted = new Set(upserted.map(({ index }) => index));
      return { met: n - inserted.size, inserted, ...(electionId && { electionId: electionId.toHexString() }) };
    },
  };
}
