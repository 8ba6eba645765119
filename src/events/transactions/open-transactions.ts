import type { ClientSession } from 'mongoose';
import { newId } from '../../ids.ts';
import type { Logger } from '../../options/options.ts';
import type { OwnerDocument, OwnerModel } from '../model.ts';

export interface OpenTransactionsDeps {
  readonly owners: OwnerModel;
  readonly logger: Logger;
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
  /** Makes the server roll back the session's transaction, by another connection. Do not end the session before, or its next user would be hit. Never rejects. */
  end(session: ClientSession): Promise<void>;
  /** Ends the sessions of processes whose lease has ended. If such a process lives after all, it runs its transaction again. */
  endAbandoned(): Promise<void>;
  /** Removes the record. */
  close(): Promise<void>;
}

type SessionId = OwnerDocument['sessions'][number];

export function createOpenTransactions({ owners, logger, lease = 5_000 }: OpenTransactionsDeps): OpenTransactions {
  const owner = newId('wrk', Date.now());
  const admin = owners.db.getClient().db('admin');
  const sessions = new Map<string, SessionId>();
  let written = new Set<string>();
  let open = 0;
  let isIdle = false;
  let timer: NodeJS.Timeout | undefined;
  let last: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  let ending: Promise<void> | undefined;
  let endedAt = Number.NEGATIVE_INFINITY;

  async function write(): Promise<void> {
    const ids = new Map(sessions);
    try {
      if (ids.size === 0) await owners.deleteOne({ _id: owner });
      else {
        const until = { $add: ['$$NOW', lease] };
        await owners.updateOne({ _id: owner }, [{ $set: { sessions: { $literal: [...ids.values()] }, until } }], {
          upsert: true,
          updatePipeline: true,
        });
      }
      written = new Set(ids.keys());
    } catch (error) {
      // without the record, other processes only recover later
      logger.warn('open transactions could not be recorded', { reason: String(error) });
    }
  }

  /** One write at a time; a write that waits for its turn serves all callers. */
  function renew(): Promise<void> {
    next ??= last.then(() => {
      next = undefined;
      last = write();
      return last;
    });
    return next;
  }

  function stop(): Promise<void> {
    clearInterval(timer);
    timer = undefined;
    sessions.clear();
    return renew();
  }

  function tick(): void {
    if (open === 0 && isIdle) void stop();
    else void renew();
    isIdle = true;
  }

  async function endDead(): Promise<void> {
    const dead = await owners.find({ $expr: { $lt: ['$until', '$$NOW'] } }).lean();
    for (const { _id, sessions, until } of dead) {
      await admin.command({ killSessions: sessions.map((id) => ({ id })) });
      await owners.deleteOne({ _id, until });
      logger.warn('the transactions of a process that died were ended', { process: _id });
    }
  }

  return {
    async enter(session) {
      open += 1;
      isIdle = false;
      const { id } = session.id as { id: SessionId };
      const key = id.toString('hex');
      sessions.set(key, id);
      timer ??= setInterval(tick, lease / 4).unref();
      if (!written.has(key)) await renew();
    },
    leave() {
      open -= 1;
    },
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
    async close() {
      if (timer) await stop();
    },
  };
}
