import type { ClientSession } from 'mongoose';
import { UnansweredError } from '../answered.ts';
import { bareWrites, durableCollection } from '../collection.ts';
import { findAllConfirmed, findConfirmed } from '../confirmed-reads.ts';
import { createDatabaseClock, type DatabaseClock } from '../database-clock.ts';
import { isDuplicateKey } from '../duplicate-key.ts';
import { createGroup } from '../group-commit.ts';
import { firstId } from '../ids.ts';
import { createInsertEvent, withFanOut } from './insert-events.ts';
import type { EventDocument, EventModel } from './model.ts';

/** An event as it is kept. Its body is there where it was just written, and not where it was read. */
export type StoredEvent = Omit<EventDocument, 'body'> & Partial<Pick<EventDocument, 'body'>>;

/** An event about to be written; the database adds the time it was accepted. */
export type NewEvent = Omit<EventDocument, 'acceptedAt' | 'fanOut' | 'expiresAt'>;

/** What `$unionWith` takes. */
export interface PartOfQuery {
  readonly coll: string;
  readonly pipeline: readonly object[];
}

/** A place in the order in which events were accepted. */
export type EventPlace = Pick<EventDocument, 'acceptedAt' | '_id'>;

/** Which unfinished events to read. */
export interface UnfinishedPage {
  readonly limit: number;
  /** Events accepted at least so long ago. Milliseconds. */
  readonly olderThan: number;
  /** The last event of the page before. */
  readonly after?: EventPlace;
}

/** The durable record of events, and of whose fan-out is still to be done. */
export interface Outbox {
  init(): Promise<void>;
  /**
   * Writes the event, or finds the one that already has its user and idempotency key. Majority and journal.
   * @param until when its turn to be written must have come, by `performance.now()`. @default never
   */
  store(event: NewEvent, until?: number): Promise<StoredEvent>;
  /** The same in a transaction. */
  storeIn(session: ClientSession, event: NewEvent): Promise<StoredEvent>;
  /** The bytes to send; `null` when the event is gone, which is confirmed. */
  body(id: string): Promise<Buffer | null>;
  markFannedOut(id: string): Promise<void>;
  /** One page of the events whose fan-out is not done, oldest first: part of a query that looks at more. */
  unfinished(page: UnfinishedPage): PartOfQuery;
  /** Ids of events older than `before` (ms since 1970) that have not been told to expire, after `after`, oldest first. */
  kept(before: number, after: string, limit: number): Promise<string[]>;
  expire(ids: readonly string[]): Promise<void>;
}

const withoutBody = { body: 0 } as const;
const beginning: EventPlace = { acceptedAt: new Date(0), _id: '' };
/** Events read or marked at once. */
const groupSize = 500;

const keyOf = ({ userId, idempotencyKey }: Pick<EventDocument, 'userId' | 'idempotencyKey'>) =>
  JSON.stringify([userId, idempotencyKey]);

/** Inserts `event` stamped with the server's time unless the filter found one: the stage must not change what is there. */
function insertOnly(event: NewEvent) {
  const fields = Object.entries(withFanOut(event)).map(([name, value]) => [name, { $literal: value }]);
  const inserted = { ...Object.fromEntries(fields), acceptedAt: '$$NOW' };
  return [{ $replaceWith: { $cond: [{ $eq: [{ $type: '$_id' }, 'missing'] }, inserted, '$$ROOT'] } }];
}

/** The outbox kept in `events`; what is asked of it at the same moment is asked of the database at once. */
export function createOutbox(events: EventModel, clock: DatabaseClock = createDatabaseClock(events.db)): Outbox {
  const collection = durableCollection(events);
  const insertEvent = createInsertEvent(bareWrites(events), clock);

  const bodies = createGroup<string, Buffer | null>({
    most: groupSize,
    atOnce: 2,
    async write(ids) {
      const found = await findAllConfirmed(collection, ids, { projection: { body: 1 } });
      return ids.map((id) => found.get(id)?.body ?? null);
    },
  });

  const marks = createGroup<string, void>({
    most: groupSize,
    async write(ids) {
      // a mark that is lost costs another fan-out, which adds nothing: it waits for no majority
      const options = { writeConcern: { w: 1 } };
      const done = { $set: { fanOut: 'done' }, $unset: { lookupElection: '' } } as const;
      await collection.updateMany({ _id: { $in: [...ids] } }, done, options);
      return [];
    },
  });

  /** The events that have the keys of these; found by a majority, or not there at all. */
  const sameKeys = createGroup<NewEvent, StoredEvent | null>({
    most: groupSize,
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
    async store(event, until = Number.POSITIVE_INFINITY) {
      for (let triesLeft = 2; triesLeft > 0; triesLeft -= 1) {
        try {
          return await insertEvent(event, until);
        } catch (error) {
          if (!isDuplicateKey(error)) throw error;
        }
        const stored = await sameKeys.add(event);
        if (stored) return stored;
        // it was rolled back in between: the key is free
      }
      throw new UnansweredError('the database has an event with this idempotency key, and then has none');
    },
    // a duplicate key would abort the caller's whole transaction
    async storeIn(session, event) {
      const { userId, idempotencyKey } = event;
      const stored = await collection.findOneAndUpdate({ userId, idempotencyKey }, insertOnly(event), {
        upsert: true,
        returnDocument: 'after',
        projection: withoutBody,
        session,
      });
      return stored as StoredEvent;
    },
    body: bodies.add,
    markFannedOut: marks.add,
    unfinished({ limit, olderThan, after: { acceptedAt, _id } = beginning }) {
      const isOld = { $lte: ['$acceptedAt', { $subtract: ['$$NOW', olderThan] }] };
      return {
        coll: collection.collectionName,
        pipeline: [
          {
            $match: {
              fanOut: 'pending',
              acceptedAt: { $gte: acceptedAt },
              $or: [{ acceptedAt: { $gt: acceptedAt } }, { _id: { $gt: _id } }],
              $expr: isOld,
            },
          },
          { $sort: { acceptedAt: 1, _id: 1 } },
          { $limit: limit },
          { $project: withoutBody },
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
