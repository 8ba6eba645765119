import type { ClientSession } from 'mongoose';
import { SessionRecord, type SessionRecordDeps } from './session-record.ts';

export interface OpenTransactionsDeps extends Omit<SessionRecordDeps, 'lease'> {
  /** After this time without a renewal a process counts as dead. Milliseconds, by the database's clock. @default 5_000 */
  readonly lease?: number;
}

/**
 * Records the sessions in which this process runs transactions, for other processes to read. The server keeps the open
 * transactions of a killed process, and locks every document that they have written, for `transactionLifetimeLimitSeconds`
 * (60 s) and longer. A process that meets such a document ends those sessions, and the server rolls them back at once. Every
 * user of MongoDB may end sessions of the same user (manual, killSessions); those of another user wait for the server.
 */
export interface OpenTransactions {
  /** Resolves when the session is recorded; most often it is already. */
  enter(session: ClientSession): Promise<void>;
  leave(): void;
  /**
   * Makes the server roll back the session's transaction, by another connection. Call it before the session ends: otherwise it would
   * roll back the transaction of the session's next user. Never rejects.
   */
  end(session: ClientSession): Promise<void>;
  /** Ends the sessions of processes whose lease has ended. If such a process lives after all, it runs its transaction again. */
  endAbandoned(): Promise<void>;
  /** Removes the record. */
  close(): Promise<void>;
}

export function createOpenTransactions({ owners, logger, lease = 5_000 }: OpenTransactionsDeps): OpenTransactions {
  const record = new SessionRecord({ owners, logger, lease });
  const admin = owners.db.getClient().db('admin');
  let ending: Promise<void> | undefined;
  let endedAt = Number.NEGATIVE_INFINITY;

  async function endDead(): Promise<void> {
    const dead = await owners.find({ $expr: { $lt: ['$until', '$$NOW'] } }).lean();
    for (const { _id, sessions, until } of dead) {
      await admin.command({ killSessions: sessions.map((id) => ({ id })) });
      await owners.deleteOne({ _id, until });
      logger.warn('the transactions of a dead process were ended', { process: _id });
    }
  }

  return {
    enter: (session) => record.enter(session),
    leave: () => record.leave(),
    async end(session) {
      await admin.command({ killSessions: [session.id] }).catch(() => {});
    },
    async endAbandoned() {
      // conflicts between live processes are common, and no reason to ask each time
      if (!ending && performance.now() - endedAt < lease / 4) return;
      ending ??= endDead()
        .catch((error) => logger.warn('abandoned transactions could not be ended', { reason: String(error) }))
        .finally(() => {
          ending = undefined;
          endedAt = performance.now();
        });
      await ending;
    },
    close: () => record.close(),
  };
}
