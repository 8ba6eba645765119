import type { ClientSession } from 'mongoose';
import { newId } from '../../ids.ts';
import { fromNow } from '../../mongo/clock.ts';
import type { Logger } from '../../options/options.ts';
import type { OwnerDocument, OwnerModel } from '../model.ts';

type SessionId = OwnerDocument['sessions'][number];

export interface SessionRecordDeps {
  readonly owners: OwnerModel;
  readonly logger: Logger;
  /** After this time without a renewal a process counts as dead. Milliseconds, by the database's clock. */
  readonly lease: number;
}

/** The stored record of the sessions in which this process runs transactions. Renewed while it runs some, and removed afterwards. */
export class SessionRecord {
  readonly #deps: SessionRecordDeps;
  readonly #owner = newId('wrk', Date.now());
  readonly #sessions = new Map<string, SessionId>();
  /** The sessions in the stored record. */
  #written = new Set<string>();
  /** Transactions under way. */
  #open = 0;
  /** Whether no transaction has begun since the last renewal. */
  #isIdle = false;
  #timer: NodeJS.Timeout | undefined;
  #lastWrite: Promise<void> = Promise.resolve();
  /** A write that waits for its turn. */
  #nextWrite: Promise<void> | undefined;

  constructor(deps: SessionRecordDeps) {
    this.#deps = deps;
  }

  /** Resolves when the session is recorded; most often it is already. */
  async enter(session: ClientSession): Promise<void> {
    this.#open += 1;
    this.#isIdle = false;
    const { id } = session.id as { id: SessionId };
    const key = id.toString('hex');
    this.#sessions.set(key, id);
    this.#timer ??= setInterval(() => this.#tick(), this.#deps.lease / 4).unref();
    if (!this.#written.has(key)) await this.#renew();
  }

  leave(): void {
    this.#open -= 1;
  }

  /** Removes the record. */
  async close(): Promise<void> {
    if (this.#timer) await this.#stop();
  }

  #tick(): void {
    if (this.#open === 0 && this.#isIdle) void this.#stop();
    else void this.#renew();
    this.#isIdle = true;
  }

  #stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#sessions.clear();
    return this.#renew();
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
    const { owners, lease, logger } = this.#deps;
    const _id = this.#owner;
    const ids = new Map(this.#sessions);
    try {
      if (ids.size === 0) await owners.deleteOne({ _id });
      else {
        const until = fromNow(lease);
        await owners.updateOne({ _id }, [{ $set: { sessions: { $literal: [...ids.values()] }, until } }], {
          upsert: true,
          updatePipeline: true,
        });
      }
      this.#written = new Set(ids.keys());
    } catch (error) {
      // without the record, other processes only recover later
      logger.warn('open transactions could not be recorded', { reason: String(error) });
    }
  }
}
