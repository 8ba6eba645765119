import type { ClientSession } from 'mongoose';
import { firstId } from '../ids.ts';
import { durableCollection, type EventDocument, type EventModel } from './model.ts';

/** An event as it is kept, without its body. */
export type StoredEvent = Omit<EventDocument, 'body'>;

/** An event about to be written; the database adds the time it was accepted. */
export type NewEvent = Omit<EventDocument, 'acceptedAt' | 'fanOut' | 'expiresAt'>;

/** The durable record of events, and of whose fan-out is still to be done. */
export interface Outbox {
  init(): Promise<void>;
  /** Writes the event, or finds the one that already has its user and idempotency key. One write, majority and journal. */
  store(event: NewEvent, session?: ClientSession): Promise<StoredEvent>;
  /** The bytes to send; `null` when the event is gone. */
  body(id: string): Promise<Buffer | null>;
  markFannedOut(id: string): Promise<void>;
  /** Events accepted at least `olderThan` ms ago whose fan-out is not done, oldest first. */
  unfinished(limit: number, olderThan: number): Promise<StoredEvent[]>;
  /** Ids of events older than `before` (ms since 1970) that have not been told to expire, after `after`, oldest first. */
  kept(before: number, after: string, limit: number): Promise<string[]>;
  expire(ids: readonly string[]): Promise<void>;
}

const withoutBody = { body: 0 } as const;
const duplicateKey = 11_000;

function isDuplicateKey(error: unknown): boolean {
  return (error as { code?: unknown }).code === duplicateKey;
}

/** Inserts `event` stamped with the server's time unless the filter found one: the stage must not change what is there. */
function insertOnly(event: NewEvent) {
  const fields = Object.entries({ ...event, fanOut: 'pending' }).map(([name, value]) => [name, { $literal: value }]);
  const inserted = { ...Object.fromEntries(fields), acceptedAt: '$$NOW' };
  return [{ $replaceWith: { $cond: [{ $eq: [{ $type: '$_id' }, 'missing'] }, inserted, '$$ROOT'] } }];
}

/** The outbox kept in `events`. */
export function createOutbox(events: EventModel): Outbox {
  const collection = durableCollection(events);

  async function upsert(event: NewEvent, session?: ClientSession): Promise<StoredEvent> {
    const { userId, idempotencyKey } = event;
    const stored = await collection.findOneAndUpdate({ userId, idempotencyKey }, insertOnly(event), {
      upsert: true,
      returnDocument: 'after',
      projection: withoutBody,
      ...(session && { session }),
    });
    return stored as StoredEvent;
  }

  return {
    async init() {
      await events.createIndexes();
    },
    async store(event, session) {
      try {
        return await upsert(event, session);
      } catch (error) {
        // two upserts of one new key at once: the loser finds the winner's event when it looks again
        if (isDuplicateKey(error) && !session?.inTransaction()) return upsert(event, session);
        throw error;
      }
    },
    async body(id) {
      const found = await collection.findOne({ _id: id }, { projection: { body: 1 } });
      return found?.body ?? null;
    },
    async markFannedOut(id) {
      await collection.updateOne({ _id: id }, { $set: { fanOut: 'done' } });
    },
    async unfinished(limit, olderThan) {
      return collection
        .find(
          { fanOut: 'pending', $expr: { $lte: ['$acceptedAt', { $subtract: ['$$NOW', olderThan] }] } },
          { projection: withoutBody },
        )
        .sort({ acceptedAt: 1 })
        .limit(limit)
        .toArray();
    },
    async kept(before, after, limit) {
      const found = await collection
        .find(
          { _id: { $gt: after, $lt: firstId('evt', before) }, fanOut: 'done', expiresAt: { $exists: false } },
          { projection: { _id: 1 } },
        )
        .sort({ _id: 1 })
        .limit(limit)
        .toArray();
      return found.map(({ _id }) => _id);
    },
    async expire(ids) {
      await collection.updateMany({ _id: { $in: [...ids] } }, [{ $set: { expiresAt: '$$NOW' } }]);
    },
  };
}
