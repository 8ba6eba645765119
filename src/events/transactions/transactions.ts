import type { ClientSession, Connection } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import { durableTransaction } from '../../mongo/collection.ts';
import { hasLabel, isUnavailable } from '../../mongo/unavailable.ts';
import { TimeoutError, withTimeout } from '../../mongo/with-timeout.ts';
import type { StoredEvent } from '../store/stored-event.ts';
import type { OpenTransactions } from './open-transactions.ts';

const options = { ...durableTransaction, readConcern: { level: 'snapshot' } } as const;

export interface Transactions {
  /**
   * Runs `fn` in a transaction, and starts the deliveries of its events right after the commit.
   * @param timeout after this time (milliseconds) an uncommitted transaction is undone. @default 120 s of tries
   */
  run<T>(fn: (session: ClientSession) => Promise<T>, timeout?: number): Promise<T>;
  /** Notes an event written in a transaction. Events in other transactions are left to sweeps. */
  publishedUnder(session: ClientSession, event: StoredEvent): void;
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
export function createTransactions(
  connection: Connection,
  open: Pick<OpenTransactions, 'enter' | 'leave' | 'end' | 'endAbandoned'>,
  /** Called after the commit of a transaction that has published something. */
  onPublished: () => void,
): Transactions {
  const published = new WeakMap<ClientSession, StoredEvent[]>();

  /** @param undoing returns a promise when the caller has stopped waiting */
  async function transact<T>(
    session: ClientSession,
    fn: (session: ClientSession) => Promise<T>,
    undoing: () => Promise<void> | undefined,
  ): Promise<T> {
    let isFirst = true;
    try {
      await open.enter(session);
      return await session.withTransaction(async () => {
        // no caller waits for it, and it would block others
        if (undoing()) throw new TimeoutError('the transaction has taken too long');
        // the database asks for another run if another process has written; that process may be dead
        if (!isFirst) await open.endAbandoned();
        isFirst = false;
        // the events of the run before were undone with it
        published.set(session, []);
        return fn(session);
      }, options);
    } finally {
      open.leave();
      await undoing();
      await session.endSession();
    }
  }

  return {
    async run(fn, timeout) {
      // mongoose's startSession would wait up to 10 s for a lost connection
      const session = connection.getClient().startSession();
      let isEnded = false;
      let undoing: Promise<void> | undefined;
      const transacted = transact(session, fn, () => undoing).finally(() => {
        isEnded = true;
      });
      try {
        const result = await (timeout === undefined ? transacted : withTimeout(transacted, timeout));
        if (published.get(session)?.length) onPublished();
        return result;
      } catch (error) {
        // its documents stay locked until the server ends the transaction
        if (!isEnded) undoing = open.end(session);
        const events = published.get(session) ?? [];
        const unknown = hasLabel(error, 'UnknownTransactionCommitResult');
        if (events.length > 0 && (unknown || isUnavailable(error))) throw commitUnconfirmed(events, error);
        throw error;
      }
    },
    publishedUnder(session, event) {
      published.get(session)?.push(event);
    },
  };
}
