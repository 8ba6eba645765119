import type { ClientSession } from 'mongoose';
import { firstId } from '../../ids.ts';
import { type Batcher, createBatcher } from '../../mongo/batcher.ts';
import type { DatabaseClock } from '../../mongo/clock.ts';
import { durableCollection, insertOnly } from '../../mongo/collection.ts';
import { findAllConfirmed, findConfirmed } from '../../mongo/confirmed-reads.ts';
import { TimeoutError } from '../../mongo/with-timeout.ts';
import { bareWrites } from '../../mongo/writes/bare-writes.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import type { EventDocument, EventModel } from '../model.ts';
import { byKeys, hintOfKeys } from './by-keys.ts';
import { createInsertEvent, withFanOut } from './insert-events.ts';
import type { EventKey, LeasedEvent, NewEvent, StoredEvent } from './stored-event.ts';

/** The argument of `$unionWith`. */
export interface PartOfQuery {
  readonly coll: string;
  readonly pipeline: readonly object[];
}

/** Stores events durably, and knows whose fan-out is still to be done. */
export interface Outbox {
  /**
   * Writes the event, with a lease on its fan-out if `lease` is above 0 ms, or finds the event that already has its user and
   * idempotency key. Acknowledged by a majority and journaled.
   * @param until the write must start before this time, by `performance.now()`. @default no limit
   */
  store(event: NewEvent, lease: number, until?: number): Promise<LeasedEvent>;
  /** The same in a caller's transaction; after its commit, any process may fan the event out. */
  storeIn(session: ClientSession, event: NewEvent): Promise<StoredEvent>;
  /** The bytes to send; `null` if the event is confirmed to be gone. */
  body(event: EventKey): Promise<Buffer | null>;
  /**
   * Marks that each of `targets` webhooks has its delivery. Does nothing if the event has more targets by now.
   */
  markFannedOut(event: EventKey, targets: number): Promise<void>;
  /** A part of a query that finds events which any process may fan out, longest waiting first. */
  unfinished(limit: number): PartOfQuery;
  /** Ids of events older than `before` (ms since 1970) that do not expire yet, after the id `after`, oldest first. */
  unexpired(before: number, after: string, limit: number): Promise<string[]>;
  expire(ids: readonly string[]): Promise<void>;
}

/** Matches events that any process may take: not every target has its delivery, and no lease is left. */
export const mayBeClaimed = { fanOut: 'pending', $expr: { $lte: ['$fanOutAt', '$$NOW'] } } as const;

const withoutBody = { body: 0 } as const;
/** Events read or marked at once. */
const maxSize = 500;
/** How long marks wait for others: sweeps ignore the events until their leases have ended. Milliseconds. */
const markMaxDelay = 100;
/** The fields of an event that no process holds, by the server's clock. */
const stamped = { acceptedAt: '$$NOW', fanOutAt: '$$NOW', fanOutLeases: 0 } as const;

const keyOf = ({ userId, idempotencyKey }: Pick<EventDocument, 'userId' | 'idempotencyKey'>) =>
  JSON.stringify([userId, idempotencyKey]);

type Events = ReturnType<typeof durableCollection<EventDocument>>;

/** Reads bodies, many in one read. */
function createBodies(collection: Events): Batcher<EventKey, Buffer | null> {
  return createBatcher({
    maxSize,
    concurrency: 2,
    async write(keys) {
      const { _id, userId } = byKeys(keys);
      const options = { projection: { body: 1 }, ...hintOfKeys, where: { userId } };
      const byId = await findAllConfirmed(collection, _id.$in, options);
      return keys.map((event) => byId.get(event._id)?.body ?? null);
    },
  });
}

/** Marks events as fanned out, many in one write. */
function createMarks(collection: Events): Batcher<{ readonly event: EventKey; readonly targets: number }, void> {
  return createBatcher({
    maxSize,
    maxDelay: markMaxDelay,
    async write(fannedOut) {
      const byTargets = new Map<number, EventKey[]>();
      for (const { event, targets } of fannedOut) byTargets.set(targets, [...(byTargets.get(targets) ?? []), event]);
      const update = { $set: { fanOut: 'done' }, $unset: { lookupElection: '' } } as const;
      const statements = [...byTargets].map(([$size, alike]) => ({
        updateMany: { filter: { ...byKeys(alike), targets: { $size } }, update, ...hintOfKeys },
      }));
      // a lost mark costs another fan-out, which adds nothing, so it waits for no majority
      await collection.bulkWrite(statements, { ordered: false, writeConcern: { w: 1 } });
      return [];
    },
  });
}

/** Finds the events with the same idempotency keys, by a confirmed read. */
function createSameKeys(collection: Events): Batcher<NewEvent, StoredEvent | null> {
  return createBatcher({
    maxSize,
    async write(group) {
      const keys = group.map(({ userId, idempotencyKey }) => ({ userId, idempotencyKey }));
      const stored = await findConfirmed(collection, { $or: keys }, { projection: withoutBody, hint: 'idempotency' });
      const byKey = new Map(stored.map((event): [string, StoredEvent] => [keyOf(event), event]));
      return group.map((event) => byKey.get(keyOf(event)) ?? null);
    },
  });
}

function unfinishedPipeline(limit: number) {
  return [
    { $match: mayBeClaimed },
    { $sort: { fanOutAt: 1, _id: 1 } },
    { $limit: limit },
    // also for a broken event: only its fan-out reports that it is broken
    {
      $project: {
        userId: 1,
        targetCount: { $cond: [{ $isArray: '$targets' }, { $size: '$targets' }, 0] },
        size: { $bsonSize: '$$ROOT' },
      },
    },
  ];
}

/** The outbox in the collection of events. Calls at the same moment share one operation. */
export function createOutbox(events: EventModel, clock: DatabaseClock): Outbox {
  const collection = durableCollection(events);
  const insertEvent = createInsertEvent(bareWrites(events), clock);
  const bodies = createBodies(collection);
  const marks = createMarks(collection);
  const sameKeys = createSameKeys(collection);

  return {
    async store(event, lease, until = Number.POSITIVE_INFINITY) {
      for (let triesLeft = 2; triesLeft > 0; triesLeft -= 1) {
        try {
          return await insertEvent({ event, lease }, until);
        } catch (error) {
          if (!isDuplicateKey(error)) throw error;
        }
        const stored = await sameKeys.add(event);
        if (stored) return { event: stored, lease: null };
        // that event was rolled back meanwhile: the key is free
      }
      throw new TimeoutError('the database reported an event with this idempotency key, but did not find it');
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
    markFannedOut: (event, targets) => marks.add({ event, targets }),
    unfinished: (limit) => ({ coll: collection.collectionName, pipeline: unfinishedPipeline(limit) }),
    async unexpired(before, after, limit) {
      const documents = await collection
        .find(
          { _id: { $gt: after, $lt: firstId('evt', before) }, fanOut: 'done', expiresAt: { $exists: false } },
          { projection: { _id: 1 } },
        )
        .sort({ _id: 1 })
        .limit(limit)
        .toArray();
      return documents.map(({ _id }) => _id);
    },
    async expire(ids) {
      await collection.updateMany({ _id: { $in: [...ids] } }, [{ $set: { expiresAt: '$$NOW' } }]);
    },
  };
}
