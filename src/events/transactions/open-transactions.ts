import type { ClientSession } from 'mongoose';
import { newId } from '../../ids.ts';
import type { Logger } from '../../options/options.ts';
import type { OwnerDocument, OwnerModel } from '../model.ts';

export interface OpenTransactionsDeps {
  readonly owners: OwnerModel;
  readonly logger: Logger;
  /** How long a process that says nothing is taken to live. Milliseconds, by the database's clock. @default 5_000 */
  readonly lease?: number;
}

/**
 * In which sessions this process runs transactions, written down where the others can read it. The server keeps what a
 * killed process had open, and with it every document that it had written to, for `transactionLifetimeLimitSeconds`
 * (60 s) and longer: whoever meets them ends those sessions, and the server rolls them back at once. Every user of MongoDB
 * may end the sessions of the same user (its manual, killSessions); those of another one wait for the server.
 */
export interface OpenTransactions {
  /** Resolves when the session is written down; most often it is already. */
  enter(session: ClientSession): Promise<void>;
  leave(): void;
  /** Has the server undo what a session of this process has open, by another connection. Until then the session is not to be ended, or its next user is met. Never rejects. */
  end(session: ClientSession): Promise<void>;
  /** Ends the sessions of processes whose lease has ended. One that lives after all runs its transaction again. */
  endAbandoned(): Promise<void>;
  /** Takes back what was written down. */
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
      // what it is good for is only how fast others recover
      logger.warn('open transactions could not be written down', { reason: String(error) });
    }
  }

  /** One write at a time, and one that waits for its turn will do for all. */
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
      // conflicts between processes that live are common, and no reason to ask again and again
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
