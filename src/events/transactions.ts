import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientSession, Connection } from 'mongoose';
import { GatewayError, refuse } from '../errors.ts';
import { newId } from '../ids.ts';
import { fromNow } from '../mongo/clock.ts';
import { databaseOf, type durableCollection, durableTransaction, inOneBatch } from '../mongo/collection.ts';
import { TimeoutError, withTimeout } from '../mongo/periodic.ts';
import { hasLabel, isUnavailable } from '../mongo/unavailable.ts';
import type { Logger } from '../options/options.ts';
import type { OwnerDocument } from './model.ts';
import type { StoredEvent } from './outbox.ts';

const options = { ...durableTransaction, readConcern: { level: 'snapshot' } } as const;
/** How long the driver tries a transaction again, where its client says nothing else. Milliseconds. */
const longestTries = 120_000;

/** A host's `timeoutMS` (mongodb 6) is for one operation, and would end the transaction, its tries included. */
function optionsOn(connection: Connection) {
  const { timeoutMS } = connection.getClient().options;
  return timeoutMS === undefined ? options : { ...options, timeoutMS: longestTries };
}

function commitUnconfirmed(events: readonly StoredEvent[], cause: unknown): GatewayError {
  const published = events.map(({ _id, idempotencyKey }) => ({ eventId: _id, idempotencyKey }));
  return new GatewayError(
    'publish_unconfirmed',
    `the transaction with ${events.length} event(s) may or may not have been committed; publishing again with their idempotency keys cannot double them`,
    { cause, headers: { 'retry-after': '1' }, details: { ...published[0], events: published } },
  );
}

/** Runs transactions. A driver's session does not tell when it commits, so only these transactions can wake the workers at once. */
export class Transactions {
  readonly #connection: Connection;
  readonly #open: OpenTransactions;
  readonly #onPublished: () => void;
  readonly #published = new WeakMap<ClientSession, StoredEvent[]>();

  /** @param onPublished called after the commit of a transaction that has published something */
  constructor(connection: Connection, open: OpenTransactions, onPublished: () => void) {
    this.#connection = connection;
    this.#open = open;
    this.#onPublished = onPublished;
  }

  /**
   * Runs `fn` in a transaction (majority, journaled, snapshot), again if the database asks for it, and wakes workers for the
   * published events right after the commit.
   * @param timeout after this time (milliseconds) an uncommitted transaction is undone. @default {@link longestTries}
   */
  async run<T>(fn: (session: ClientSession) => Promise<T>, timeout?: number): Promise<T> {
    // mongoose's startSession would wait up to 10 s for a lost connection
    const session = this.#connection.getClient().startSession();
    let isEnded = false;
    let undoing: Promise<void> | undefined;
    const transacted = this.#transact(session, fn, () => undoing).finally(() => {
      isEnded = true;
    });
    try {
      const result = await (timeout === undefined ? transacted : withTimeout(transacted, timeout));
      if (this.#published.get(session)?.length) this.#onPublished();
      return result;
    } catch (error) {
      // its documents stay locked until the server ends the transaction
      if (!isEnded) undoing = this.#open.end(session);
      const events = this.#published.get(session) ?? [];
      const unknown = hasLabel(error, 'UnknownTransactionCommitResult');
      if (events.length > 0 && (unknown || isUnavailable(error))) throw commitUnconfirmed(events, error);
      throw error;
    }
  }

  /** Notes an event written in a transaction. Events in other transactions are left to sweeps. */
  publishedUnder(session: ClientSession, event: StoredEvent): void {
    this.#published.get(session)?.push(event);
  }

  /** @param undoing returns a promise when the caller has stopped waiting */
  async #transact<T>(
    session: ClientSession,
    fn: (session: ClientSession) => Promise<T>,
    undoing: () => Promise<void> | undefined,
  ): Promise<T> {
    let isFirst = true;
    try {
      await this.#open.enter(session);
      return await session.withTransaction(async () => {
        // no caller waits for it, and it would block others
        if (undoing()) throw new TimeoutError('the transaction has taken too long');
        // the database asks for another run if another process has written; that process may be dead
        if (!isFirst) await this.#open.endAbandoned();
        isFirst = false;
        // the events of the run before were undone with it
        this.#published.set(session, []);
        return fn(session);
      }, optionsOn(this.#connection));
    } finally {
      if (undoing()) {
        await undoing();
        // what the server did not answer in time may have begun the transaction after it was rolled back
        await this.#open.end(session);
      }
      // until then other processes find it in the record, should this one die
      this.#open.leave();
      await session.endSession();
    }
  }
}

/** After this time the server itself has rolled a transaction back (`transactionLifetimeLimitSeconds`, and half of it). Milliseconds. */
const longestOpen = 90_000;
/** How long the server may take to roll one back, and how soon it is asked again. Milliseconds. */
const [longestKill, killInterval] = [9_000, 500] as const;

/** The server's codes for a user or a connection that may not end sessions, whenever it asks. */
const refusals: ReadonlySet<unknown> = new Set([
  13, // Unauthorized
  59, // CommandNotFound
  323, // APIStrictError
  8_000, // AtlasError
]);

type SessionId = OwnerDocument['sessions'][number];

export interface OpenTransactionsDeps {
  readonly connection: Connection;
  readonly owners: ReturnType<typeof durableCollection<OwnerDocument>>;
  readonly logger: Logger;
  /** After this time without a renewal a process counts as dead. Milliseconds, by the database's clock. @default 5_000 */
  readonly lease?: number;
}

/**
 * Records the sessions in which this process runs transactions, for other processes to read; the record is renewed while there are some,
 * and removed afterwards. The server keeps the open transactions of a killed process, and locks every document that they have written,
 * for `transactionLifetimeLimitSeconds` (60 s) and longer. A process that meets such a document ends those sessions, and the server
 * rolls them back at once. Every user of MongoDB may end sessions of the same user (manual, killSessions); those of another user wait
 * for the server.
 */
export class OpenTransactions {
  readonly #owners: ReturnType<typeof durableCollection<OwnerDocument>>;
  readonly #logger: Logger;
  readonly #lease: number;
  readonly #admin: ReturnType<typeof databaseOf>;
  readonly #owner = newId('wrk', Date.now());
  readonly #sessions = new Map<string, SessionId>();
  /** The sessions in the stored record. */
  #written = new Set<string>();
  /** Whether there may be a record. */
  #hasRecord = false;
  /** Transactions under way. */
  #open = 0;
  /** Whether no transaction has begun since the last renewal. */
  #isIdle = false;
  #timer: NodeJS.Timeout | undefined;
  #lastWrite: Promise<void> = Promise.resolve();
  /** A write that waits for its turn. */
  #nextWrite: Promise<void> | undefined;
  /** The sessions of dead processes are being ended. */
  #ending: Promise<void> | undefined;
  /** The dead processes at the last look. */
  #dead = new Set<string>();
  #endedAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor({ connection, owners, logger, lease = 5_000 }: OpenTransactionsDeps) {
    this.#owners = owners;
    this.#logger = logger;
    this.#lease = lease;
    this.#admin = databaseOf(connection, { name: 'admin' });
  }

  /** Resolves when the session is recorded; most often it is already. */
  async enter(session: ClientSession): Promise<void> {
    this.#open += 1;
    this.#isIdle = false;
    const { id } = session.id as { id: SessionId };
    const key = id.toString('hex');
    this.#sessions.set(key, id);
    this.#timer ??= setInterval(() => {
      if (this.#open === 0 && this.#isIdle) void this.#forget();
      else void this.#renew();
      this.#isIdle = true;
    }, this.#lease / 4).unref();
    if (!this.#written.has(key)) await this.#renew();
  }

  leave(): void {
    this.#open -= 1;
  }

  /**
   * Makes the server roll back the session's transaction, by another connection; asks again until the server has answered, or rolls it back
   * by itself, or this process closes. Others wait for its documents until then, and counting usage is one of them. Call it before the session ends: otherwise
   * it would roll back the transaction of the session's next user. Never rejects.
   */
  async end(session: ClientSession): Promise<void> {
    const rolledBackAt = performance.now() + longestOpen;
    while (!(await this.#kill(session)) && !this.#isClosed && performance.now() < rolledBackAt) {
      await sleep(killInterval, undefined, { ref: false });
    }
  }

  /** Resolves with whether the server need not be asked again. */
  async #kill({ id }: ClientSession): Promise<boolean> {
    try {
      await withTimeout(this.#admin.command({ killSessions: [id] }), longestKill, false);
      return true;
    } catch (error) {
      return refusals.has((error as { readonly code?: unknown }).code);
    }
  }

  /** Ends the sessions of processes whose lease has ended. If such a process lives after all, it runs its transaction again. */
  async endAbandoned(): Promise<void> {
    // conflicts between live processes are common, and no reason to ask each time
    if (!this.#ending && performance.now() - this.#endedAt < this.#lease / 4) return;
    this.#ending ??= this.#endDead()
      .catch((error) => this.#logger.warn('abandoned transactions could not be ended', { reason: String(error) }))
      .finally(() => {
        this.#ending = undefined;
        this.#endedAt = performance.now();
      });
    await this.#ending;
  }

  /** Removes the record. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (!this.#timer) return;
    this.#stopTimer();
    await this.#remove();
  }

  /**
   * Removes the record of a process that has no transactions for the time being, and tries again until that is done: where it is left, others
   * end these sessions again and again, and the driver uses them for other operations.
   */
  async #forget(): Promise<void> {
    await this.#remove();
    if (this.#sessions.size === 0 && !this.#hasRecord) this.#stopTimer();
  }

  #stopTimer(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #remove(): Promise<void> {
    this.#sessions.clear();
    // a transaction that begins meanwhile records its session anew
    this.#written.clear();
    return this.#renew();
  }

  /**
   * A record stays until its index removes it: a process that lives after all, and was only late, may begin a transaction under a session of
   * that record, and be killed before it renews it.
   */
  async #endDead(): Promise<void> {
    // ids of sessions are binary values of a subtype, which a buffer has not
    const options = { ...inOneBatch, promoteBuffers: false };
    const dead = await this.#owners.find({ $expr: { $lt: ['$until', '$$NOW'] } }, options).toArray();
    const sessions = dead.flatMap((owner) => owner.sessions.map((id) => ({ id })));
    if (sessions.length > 0) await this.#admin.command({ killSessions: sessions });
    for (const { _id } of dead) {
      if (!this.#dead.has(_id)) this.#logger.warn('the transactions of a dead process were ended', { process: _id });
    }
    this.#dead = new Set(dead.map(({ _id }) => _id));
  }

  /** One write at a time; a write that waits for its turn serves all callers. */
  #renew(): Promise<void> {
    this.#nextWrite ??= this.#lastWrite.then(() => {
      this.#nextWrite = undefined;
      this.#lastWrite = this.#write();
      return this.#lastWrite;
    });
    return this.#nextWrite;
  }

  async #write(): Promise<void> {
    const _id = this.#owner;
    const ids = new Map(this.#sessions);
    // a failover may lose it, but the next renewal writes it again, and a failover ends transactions anyway
    const unconfirmed = { writeConcern: { w: 1 } } as const;
    try {
      if (ids.size === 0) {
        await this.#owners.deleteOne({ _id }, unconfirmed);
        this.#hasRecord = false;
      } else {
        this.#hasRecord = true;
        const until = fromNow(this.#lease);
        await this.#owners.updateOne({ _id }, [{ $set: { sessions: { $literal: [...ids.values()] }, until } }], {
          ...unconfirmed,
          upsert: true,
        });
      }
      // some may have been forgotten meanwhile, and the record is removed next
      this.#written = new Set([...ids.keys()].filter((key) => this.#sessions.has(key)));
    } catch (error) {
      // without the record, other processes only recover later
      this.#logger.warn('open transactions could not be recorded', { reason: String(error) });
    }
  }
}

type WriteConcern = Readonly<Partial<Record<'w' | 'j' | 'journal', unknown>>>;

/**
 * Refuses sessions in a transaction whose write concern is not majority. Without a write concern, the server's default counts:
 * majority since MongoDB 5.0, unless an administrator changed it. With less, the database could lose acknowledged writes.
 */
export function createMajorityCheck(connection: Connection) {
  async function serverDefault(): Promise<WriteConcern> {
    const admin = databaseOf(connection, { name: 'admin' });
    try {
      const { defaultWriteConcern } = await admin.command({ getDefaultRWConcern: 1 });
      return defaultWriteConcern ?? { w: 'majority' };
    } catch {
      // not every user may ask; the default of every supported server is majority
      return { w: 'majority' };
    }
  }

  return async function requireMajority(session: ClientSession): Promise<void> {
    if (!session.inTransaction()) return;
    // the driver keeps the write concern with which it was started, but its types do not show it
    const { transaction } = session as unknown as { transaction?: { options?: { writeConcern?: WriteConcern } } };
    const { w = (await serverDefault()).w, j, journal } = transaction?.options?.writeConcern ?? {};
    if (w === 'majority' && j !== false && journal !== false) return;
    throw new GatewayError(
      'weak_write_concern',
      "session: its transaction is acknowledged by less than a majority and could lose the event; start it with { writeConcern: { w: 'majority' } }",
      { param: 'session' },
    );
  };
}

/**
 * Refuses a session of another connection: what is written under it cannot be in one transaction with the event.
 * @throws GatewayError `invalid_value`
 */
export function requireOwnClient(connection: Connection, session: ClientSession): void {
  // the driver keeps the client that has started it, but its types do not show it
  const { client } = session as unknown as { readonly client?: unknown };
  if (client === connection.getClient()) return;
  refuse(
    'invalid_value',
    'session',
    'must be of the connection that the option mongo names; start it with connection.startSession()',
  );
}
