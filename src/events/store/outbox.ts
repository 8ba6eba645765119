import type { ClientSession } from 'mongoose';
import { firstId } from '../../ids.ts';
import { createBatcher } from '../../mongo/batcher.ts';
import { createDatabaseClock, type DatabaseClock, type Moment } from '../../mongo/clock.ts';
import { durableCollection, insertOnly } from '../../mongo/collection.ts';
import { findAllConfirmed, findConfirmed } from '../../mongo/confirmed-reads.ts';
import { TimeoutError } from '../../mongo/with-timeout.ts';
import { bareWrites } from '../../mongo/writes/bare-writes.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import type { EventDocument, EventModel } from '../model.ts';
import { createInsertEvent, withFanOut } from './insert-events.ts';

/** An event as it is kept. Its body is there where the event was just written, or taken to be fanned out. */
export type StoredEvent = Omit<EventDocument, 'body'> & Partial<Pick<EventDocument, 'body'>>;

/** An event about to be written; the database adds the time it was accepted. */
export type NewEvent = Omit<EventDocument, 'acceptedAt' | 'fanOut' | 'fanOutAt' | 'fanOutLeases' | 'expiresAt'>;

/** The right to make the deliveries of an event, until it lapses. */
export interface FanOutLease {
  /** Until when it lasts, by `performance.now()` and never later than by the database's clock. */
  readonly heldUntil: number;
  /** When this process began to hold it. */
  readonly since: Moment;
  /** Nobody had one before: no attempt has begun but of deliveries that are stored. */
  readonly isFirst: boolean;
}

/** An event, and the right of this process to make its deliveries, if it has it. */
export interface LeasedEvent {
  readonly event: StoredEvent;
  readonly lease: FanOutLease | null;
}

/** An event whose deliveries this process has the right to make. */
export interface HeldEvent extends LeasedEvent {
  readonly lease: FanOutLease;
}

/** An event that may be fanned out. */
export interface UnfinishedEvent {
  readonly _id: string;
  readonly targetCount: number;
  /** As it is stored. Bytes. */
  readonly size: number;
}

/** What `$unionWith` takes. */
export interface PartOfQuery {
  readonly coll: string;
  readonly pipeline: readonly object[];
}

/** The durable record of events, and of whose fan-out is still to be done. */
export interface Outbox {
  init(): Promise<void>;
  /**
   * Writes the event, under a lease on its fan-out where that is longer than 0 ms, or finds the one that already has its
   * user and idempotency key. Majority and journal.
   * @param until when its turn to be written must have come, by `performance.now()`. @default never
   */
  store(event: NewEvent, lease: number, until?: number): Promise<LeasedEvent>;
  /** The same in a caller's transaction; whoever asks may fan it out when that is committed. */
  storeIn(session: ClientSession, event: NewEvent): Promise<StoredEvent>;
  /** The bytes to send; `null` when the event is gone, which is confirmed. */
  body(id: string): Promise<Buffer | null>;
  /**
   * There is a delivery for each of so many targets. Does nothing where the event has more by now, which somebody has still to make.
   */
  markFannedOut(id: string, targets: number): Promise<void>;
  /** So many of the events that may be fanned out by whoever asks, longest waiting first: part of a query that looks at more. */
  unfinished(limit: number): PartOfQuery;
  /** Ids of events older than `before` (ms since 1970) that have not been told to expire, after `after`, oldest first. */
  kept(before: number, after: string, limit: number): Promise<string[]>;
  expire(ids: readonly string[]): Promise<void>;
}

/** True of events that any process may take: not every target has its delivery, and no lease lasts. */
export const mayBeTaken = { fanOut: 'pending', $expr: { $lte: ['$fanOutAt', '$$NOW'] } } as const;

const withoutBody = { body: 0 } as const;
/** Events read or marked at once. */
const maxSize = 500;
/** How long the marks of many events wait for others: the sweep looks at none of them before its lease has ended. Milliseconds. */
const markMaxDelay = 100;
/** What an event has beside what is published, stored for whoever asks. */
const stamped = { acceptedAt: '$$NOW', fanOutAt: '$$NOW', fanOutLeases: 0 } as const;

const keyOf = ({ userId, idempotencyKey }: Pick<EventDocument, 'userId' | 'idempotencyKey'>) =>
  JSON.stringify([userId, idempotencyKey]);

/** The outbox kept in `events`; what is asked of it at the same moment is asked of the database at once. */
export function createOutbox(events: EventModel, clock: DatabaseClock = createDatabaseClock(events.db)): Outbox {
  const collection = durableCollection(events);
  const insertEvent = createInsertEvent(bareWrites(events), clock);

  const bodies = createBatcher<string, Buffer | null>({
    maxSize,
    concurrency: 2,
    async write(ids) {
      const found = await findAllConfirmed(collection, ids, { projection: { body: 1 } });
      return ids.map((id) => found.get(id)?.body ?? null);
    },
  });

  const marks = createBatcher<{ readonly id: string; readonly targets: number }, void>({
    maxSize,
    maxDelay: markMaxDelay,
    async write(fannedOut) {
      const byTargets = new Map<number, string[]>();
      for (const { id, targets } of fannedOut) byTargets.set(targets, [...(byTargets.get(targets) ?? []), id]);
      const update = { $set: { fanOut: 'done' }, $unset: { lookupElection: '' } } as const;
      const statements = [...byTargets].map(([$size, ids]) => ({
        updateMany: { filter: { _id: { $in: ids }, targets: { $size } }, update },
      }));
      // a mark that is lost costs another fan-out, which adds nothing: it waits for no majority
      await collection.bulkWrite(statements, { ordered: false, writeConcern: { w: 1 } });
      return [];
    },
  });

  /** The events that have the keys of these; found by a majority, or not there at all. */
  const sameKeys = createBatcher<NewEvent, StoredEvent | null>({
    maxSize,
    async write(group) {
      const keys = group.map(({ userId, idempotencyKey }) => ({ userId, idempotencyKey }));
      const found = await findConfirmed(collection, { $or: keys }, { projection: withoutBody, hint: 'idempotency' });
      const byKey = new Map(found.map((event) => [keyOf(event), event as StoredEvent]));
      return group.map((event) => byKey.get(keyOf(event)) ?? null);
    },
  });

  return {
    async init() {
      await events.createIndexes();
    },
    async store(event, lease, until = Number.POSITIVE_INFINITY) {
      for (let triesLeft = 2; triesLeft > 0; triesLeft -= 1) {
        try {
          return await insertEvent({ event, lease }, until);
        } catch (error) {
          if (!isDuplicateKey(error)) throw error;
        }
        const stored = await sameKeys.add(event);
        if (stored) return { event: stored, lease: null };
        // it was rolled back in between: the key is free
      }
      throw new TimeoutError('the database has an event with this idempotency key, and then has none');
    },
    // a duplicate key would abort the caller's whole transaction
    async storeIn(session, event) {
      const { userId, idempotencyKey } = event;
      const insert = insertOnly(withFanOut(event), stamped, '_id');
      const stored = await collection.findOneAndUpdate({ userId, idempotencyKey }, insert, {
        upsert: true,
        returnDocument: 'after',
        projection: withoutBody,
        session,
      });
      return stored as StoredEvent;
    },
    body: bodies.add,
    markFannedOut: (id, targets) => marks.add({ id, targets }),
    unfinished(limit) {
      return {
        coll: collection.collectionName,
        pipeline: [
          { $match: mayBeTaken },
          { $sort: { fanOutAt: 1, _id: 1 } },
          { $limit: limit },
          // of a broken event too: one that is not taken is never found to be broken
          {
            $project: {
              targetCount: { $cond: [{ $isArray: '$targets' }, { $size: '$targets' }, 0] },
              size: { $bsonSize: '$$ROOT' },
            },
          },
        ],
      };
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
