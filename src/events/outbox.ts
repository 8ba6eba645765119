import { randomUUID } from 'node:crypto';
import type { ClientSession } from 'mongoose';
import { type Batcher, createBatcher } from '../mongo/batcher.ts';
import { type DatabaseClock, type Election, fromNow, type Moment } from '../mongo/clock.ts';
import { durableCollection, inOneBatch, insertOnly } from '../mongo/collection.ts';
import { findAllConfirmed, findConfirmed } from '../mongo/confirmed-reads.ts';
import { Leases } from '../mongo/lease.ts';
import { TimeoutError } from '../mongo/periodic.ts';
import { isUnavailable } from '../mongo/unavailable.ts';
import { bareWrites, isDuplicateKey } from '../mongo/writes.ts';
import type { AddressedEvent, Subscribers } from '../webhooks/webhook.ts';
import type { EventDocument, EventModel } from './model.ts';

/** Stores events durably, and knows whose fan-out is still to be done. */
export type Outbox = ReturnType<typeof createOutbox>;

/** Matches events that any process may take: not every target has its delivery, and no lease is left. */
const mayBeClaimed = { fanOut: 'pending', $expr: { $lte: ['$fanOutAt', '$$NOW'] } } as const;

/** The `lookupElection` of an event that is written beside the look-up of its subscribers: no election, so no later write proves it. */
export const notLookedUp: Election = 'none';

const withoutBody = { body: 0 } as const;
/** Events read or marked at once. */
const maxSize = 500;
/** How far apart marks are written: sweeps ignore the events until their leases have ended, and at least 2 s are left of one. Milliseconds. */
const markInterval = 1_000;
/** The fields of an event that no process holds, by the server's clock. */
const stamped = { acceptedAt: '$$NOW', fanOutAt: '$$NOW', fanOutLeases: 0 } as const;

const keyOf = ({ userId, idempotencyKey }: Pick<EventDocument, 'userId' | 'idempotencyKey'>) =>
  JSON.stringify([userId, idempotencyKey]);

type Events = ReturnType<typeof durableCollection<EventDocument>>;

/** A copy: the driver's buffers are parts of the whole reply, which one of them would keep in memory. A broken event has anything. */
const ownBytes = (bytes: Buffer): Buffer => (Buffer.isBuffer(bytes) ? Buffer.from(bytes) : bytes);

/** Reads bodies, many in one read. */
function createBodies(collection: Events): Batcher<EventKey, Buffer | null> {
  return createBatcher({
    maxSize,
    concurrency: 2,
    async write(keys) {
      const { _id, userId } = byKeys(keys);
      const options = { projection: { body: 1 }, ...hintOfKeys, where: { userId } };
      const byId = await findAllConfirmed(collection, _id.$in, options);
      return keys.map((event) => {
        const body = byId.get(event._id)?.body;
        return body ? ownBytes(body) : null;
      });
    },
  });
}

/** Marks events as fanned out, many in one write. */
function createMarks(collection: Events): Batcher<FannedOut, void> {
  return createBatcher({
    maxSize,
    interval: markInterval,
    enough: maxSize,
    async write(fannedOut) {
      const byTargets = new Map<number, EventKey[]>();
      for (const event of fannedOut) byTargets.set(event.targets, [...(byTargets.get(event.targets) ?? []), event]);
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
export function createOutbox(events: EventModel, clock: DatabaseClock) {
  const collection = durableCollection(events);
  const inserts = createInserts(events, clock);
  const bodies = createBodies(collection);
  const marks = createMarks(collection);
  const sameKeys = createSameKeys(collection);

  return {
    /**
     * Writes the event, with a lease on its fan-out if `lease` is above 0 ms, or finds the event that already has its user and
     * idempotency key. Acknowledged by a majority and journaled.
     * @param until the write must start before this time, by `performance.now()`. @default no limit
     * @param onWrite called when the write starts, for each try
     */
    async store(
      event: NewEvent,
      lease: number,
      until = Number.POSITIVE_INFINITY,
      onWrite?: () => void,
    ): Promise<WrittenEvent> {
      for (let triesLeft = 2; triesLeft > 0; triesLeft -= 1) {
        const result = await inserts.add({ event, lease, until, onWrite });
        if (!('error' in result)) return result;
        if (!isDuplicateKey(result.error)) throw result.error;
        const stored = await sameKeys.add(event);
        if (stored) return { event: stored, lease: null };
        // that event was rolled back meanwhile: the key is free
      }
      throw new TimeoutError('the database reported an event with this idempotency key, but did not find it');
    },
    /** The same in a caller's transaction; after its commit, any process may fan the event out. */
    async storeIn(session: ClientSession, event: NewEvent): Promise<StoredEvent> {
      const { userId, idempotencyKey } = event;
      // a duplicate key would abort the caller's whole transaction
      const insert = insertOnly(withFanOut(event), stamped, '_id');
      const stored = await collection.findOneAndUpdate({ userId, idempotencyKey }, insert, {
        upsert: true,
        returnDocument: 'after',
        projection: withoutBody,
        session,
      });
      return stored as StoredEvent;
    },
    /**
     * Gives an event that was just stored exactly these subscribers. Resolves to `null`, and changes nothing, if another process holds it by
     * now, or a recovery has added to it: then deliveries may have been made.
     */
    async setSubscribers(event: StoredEvent, { targets, skipped }: Subscribers): Promise<StoredEvent | null> {
      const { lookupElection: _, ...settled } = event;
      if (isSame(event.targets, targets) && isSame(event.skipped, skipped)) return settled;
      const { _id, userId, fanOutLeases } = event;
      const asStored = { _id, userId, fanOutLeases, targets: event.targets, skipped: event.skipped };
      const update = { $set: { targets, skipped }, $unset: { lookupElection: '' } } as const;
      const { matchedCount } = await collection.updateOne({ ...asStored, fanOut: 'pending' }, update);
      return matchedCount === 0 ? null : { ...settled, targets, skipped };
    },
    /** The bytes to send; `null` if the event is confirmed to be gone. */
    body: bodies.add,
    /** Marks that each webhook has its delivery. Does nothing if the event has more targets by now. */
    markFannedOut: marks.add,
    /** A part of a query that finds events which any process may fan out, longest waiting first. */
    unfinished: (limit: number) => ({
      coll: collection.collectionName,
      pipeline: unfinishedPipeline(limit),
    }),
    /** From now on no mark waits for others. */
    close: marks.close,
  };
}

const isSame = (some: readonly string[], others: readonly string[]) =>
  some.length === others.length && some.every((id, i) => id === others[i]);

type InsertResult = WrittenEvent | { readonly error: unknown };

/** An event to be inserted, with what {@link Outbox.store} is given. */
interface Insertion {
  readonly event: NewEvent;
  readonly lease: number;
  readonly until: number;
  readonly onWrite: (() => void) | undefined;
}

/** Events in one write: at 256 KiB each they still fit into a protocol message. */
const insertMaxSize = 150;
/** While one write waits for the journal, the next is sent. */
const concurrency = 2;
/**
 * How long the next write waits for others where the one before had several events; the look-ups of subscribers begin with it, and are shared,
 * too. 16 publishers cost sender and MongoDB 0.87 times the CPU (0.7 where nothing is delivered), at the same rate; 3 ms cost a tenth of the
 * rate. Milliseconds.
 */
const maxDelay = 2;

/** The event with its fan-out state: `done` if it is certain that there are no subscribers. */
function withFanOut<Event extends Pick<NewEvent, 'targets' | 'lookupElection'>>(
  event: Event,
): Event & Pick<StoredEvent, 'fanOut'> {
  const isDone = event.targets.length === 0 && event.lookupElection === undefined;
  return { fanOut: isDone ? 'done' : 'pending', ...event };
}

/**
 * Whether a write of an event proves that the look-up of its subscribers has seen every change that was acknowledged before `publish` was
 * called. A replaced primary answers reads like any other, but no majority acknowledges its writes: when the write reached the primary of
 * `writtenIn`, none had been elected after that one. So every change until then was acknowledged in this election or an earlier one, and the
 * primary of this or of a later election has it. Such a primary has answered the look-up: the driver reads from none of an earlier election
 * than the latest that it knows. Both begin after the call of `publish`, so it does not matter which of them ends first.
 * @param lookupElection the latest election that the driver knew when the look-up began
 * @param writtenIn the election in the answer to a write that a majority has acknowledged
 */
export function isProven(lookupElection: Election | undefined, writtenIn: Election): boolean {
  return lookupElection === writtenIn && writtenIn !== 'unknown';
}

/**
 * Inserts events, each with this process's lease on its fan-out, many in one write, acknowledged by a majority and journaled. An error
 * in a result has code 11000 if the user has an event with that idempotency key.
 */
function createInserts(events: EventModel, clock: DatabaseClock): Batcher<Insertion, InsertResult> {
  const { insertEach } = bareWrites(events);

  return createBatcher({
    maxSize: insertMaxSize,
    concurrency,
    maxDelay,
    until: ({ until }) => until,
    async write(group) {
      for (const { onWrite } of group) onWrite?.();
      // taken before the clock is read: a process that stands still in between holds its leases for less time, not for more
      const askedAt = performance.now();
      const acceptedAt = await clock.now();
      const since = { time: acceptedAt, monotonic: performance.now() };
      const documents = group.map(({ event, lease }): StoredEvent => {
        const fanOutAt = new Date(acceptedAt.getTime() + lease);
        return withFanOut({ acceptedAt, fanOutAt, fanOutLeases: lease > 0 ? 1 : 0, ...event });
      });
      // the driver does not retry bare commands; if the first try has stored an event, the second meets it under its own id
      const { failures, electionId = 'standalone' } = await insertEach(documents).catch((error) => {
        if (!isUnavailable(error)) throw error;
        return insertEach(documents);
      });
      return documents.map((event, i): InsertResult => {
        const error = failures.get(i);
        if (error && !isDuplicateKey(error, '_id')) return { error };
        const lease = group[i]?.lease ?? 0;
        const held = lease > 0 ? { heldUntil: askedAt + lease, since, isFirst: true } : null;
        return { event, lease: held, writtenIn: electionId };
      });
    },
  });
}

/** Matches these events. The accounts tell a mongos which shards to ask; on one replica set they change nothing. */
function byKeys(events: readonly EventKey[]) {
  return {
    _id: { $in: events.map(({ _id }) => _id) },
    userId: { $in: [...new Set(events.map(({ userId }) => userId))] },
  };
}

/** The index for it: one look-up for each event, where an index by account would make one for each pair. */
const hintOfKeys = { hint: { _id: 1 } } as const;

export type ClaimEvents = ReturnType<typeof createClaimEvents>;
export type RenewEvents = ReturnType<typeof createRenewEvents>;

/** The lease on the fan-out of an event. Renewals are fenced by the number of leases there have been. */
const leaseFields = { fence: 'fanOutLeases', until: 'fanOutAt' } as const;

export function createRenewEvents(events: EventModel) {
  const collection = durableCollection(events);

  /**
   * Extends the leases of events whose fan-out is not done and that no other process has taken since.
   * @param duration milliseconds from now
   */
  return async function renewEvents(
    held: readonly Pick<StoredEvent, '_id' | 'userId' | 'fanOutLeases'>[],
    duration: number,
  ): Promise<void> {
    const leases = new Leases(collection, { ...leaseFields, duration });
    const { userId } = byKeys(held);
    // if a failover loses a renewal, an attempt may be made twice: that is cheaper than waiting for a majority each time
    const options = { ...hintOfKeys, writeConcern: { w: 1 } };
    const renewal = { where: { userId, fanOut: 'pending' }, options };
    await Promise.all(
      [...new Set(held.map(({ fanOutLeases }) => fanOutLeases))].map((fence) => {
        const alike = held.filter(({ fanOutLeases }) => fanOutLeases === fence);
        return leases.extend(
          alike.map(({ _id }) => ({ _id, fence })),
          renewal,
        );
      }),
    );
  };
}

export function createClaimEvents(events: EventModel, clock: DatabaseClock) {
  const collection = durableCollection(events);
  const { updateEach } = bareWrites(events);

  /**
   * Takes those of these events whose fan-out is not done and that no other process holds. A majority acknowledges the leases,
   * because first attempts are sent under them alone.
   * @param lease milliseconds
   */
  return async function claimEvents(wanted: readonly EventKey[], lease: number): Promise<HeldEvent[]> {
    const askedAt = performance.now();
    const fanOutToken = randomUUID();
    // an event with a broken number counts as held before
    const leases = { $cond: [{ $isNumber: '$fanOutLeases' }, '$fanOutLeases', 1] };
    const set = {
      fanOutToken: { $literal: fanOutToken },
      fanOutAt: fromNow(lease),
      fanOutLeases: { $add: [leases, 1] },
    };
    const q = { ...byKeys(wanted), ...mayBeClaimed };
    const statement = { q, u: [{ $set: set }], multi: true, ...hintOfKeys };
    const { matched, electionId = 'standalone' } = await updateEach([statement]);
    if (matched === 0) return [];
    // the lease counts down meanwhile
    const [since, taken] = await Promise.all([
      clock.now().then((time) => ({ time, monotonic: performance.now() })),
      collection.find({ ...byKeys(wanted), fanOutToken }, { ...inOneBatch, ...hintOfKeys }).toArray(),
    ]);
    return taken.map(({ body, deliveryKey, ...others }) => {
      const event = { body: ownBytes(body), deliveryKey: ownBytes(deliveryKey), ...others };
      const { lookupElection, ...settled } = event;
      return {
        event: isProven(lookupElection, electionId) ? settled : event,
        lease: { heldUntil: askedAt + lease, since, isFirst: event.fanOutLeases === 1 },
      };
    });
  };
}

/**
 * Completes the subscribers of a stored event that are not certain: a replaced primary may have looked them up, which did not know a webhook, or
 * not as active, or its publisher may have died before it had looked. Such an event must not be fanned out before. Nobody is taken away:
 * the event may have been acknowledged, and attempts may have been made. Calling it again does no harm.
 * @param body an envelope with the event's type and data. @default the event's own
 * @throws TimeoutError if the database does not confirm the subscribers
 */
export type SettleSubscribers = (event: StoredEvent, body?: Buffer) => Promise<StoredEvent>;

/** @param confirmedSubscribers a look-up that no replaced primary answers */
export function createSettleSubscribers(
  events: EventModel,
  confirmedSubscribers: (event: AddressedEvent) => Promise<Subscribers>,
): SettleSubscribers {
  const collection = durableCollection(events);

  return async function settleSubscribers(event, body = event.body) {
    const { lookupElection, ...settled } = event;
    if (lookupElection === undefined) return event;
    if (!body) throw new TypeError('The subscribers of an event cannot be confirmed without its body');
    const { userId, type } = event;
    const { targets, skipped } = await confirmedSubscribers({ userId, type, body });
    const more = {
      targets: targets.filter((id) => !event.targets.includes(id)),
      skipped: skipped.filter((id) => !event.targets.includes(id) && !event.skipped.includes(id)),
    };
    // webhooks that the replaced primary still had as inactive
    const back = event.skipped.filter((id) => targets.includes(id));
    if (more.targets.length + more.skipped.length + back.length === 0) return settled;
    const key = { _id: event._id, userId };
    const $addToSet = { targets: { $each: more.targets }, skipped: { $each: more.skipped } };
    await collection.updateOne(key, { $addToSet, $set: { fanOut: 'pending', targetsAdded: true } });
    if (back.length > 0) await collection.updateOne(key, { $pull: { skipped: { $in: back } } });
    return {
      ...settled,
      targetsAdded: true,
      targets: [...event.targets, ...more.targets],
      skipped: [...event.skipped, ...more.skipped].filter((id) => !back.includes(id)),
    };
  };
}

/** A stored event. It has its body if it was just written, or taken for its fan-out. */
export type StoredEvent = Omit<EventDocument, 'body'> & Partial<Pick<EventDocument, 'body'>>;

/** What finds an event: its id, and its account, by which a sharded cluster knows the shard. */
export type EventKey = Pick<EventDocument, '_id' | 'userId'>;

/** An event whose deliveries have begun or are stored. */
export interface FannedOut extends EventKey {
  /** How many there are. */
  readonly targets: number;
}

/** An event to write; the database adds the time of acceptance. */
export type NewEvent = Omit<EventDocument, 'acceptedAt' | 'fanOut' | 'fanOutAt' | 'fanOutLeases' | 'expiresAt'>;

/** The right to make the deliveries of an event, until it lapses. */
export interface FanOutLease {
  /** When it ends, by `performance.now()`; never later than by the database's clock. */
  readonly heldUntil: number;
  /** When it began. */
  readonly since: Moment;
  /** Whether it is the event's first lease: then only attempts of stored deliveries can have begun. */
  readonly isFirst: boolean;
}

/** An event, with this process's lease on its fan-out if it has one. */
export interface LeasedEvent {
  readonly event: StoredEvent;
  readonly lease: FanOutLease | null;
}

/** An event as a call has found or written it. */
export interface WrittenEvent extends LeasedEvent {
  /** The election of the primary that has written it; absent if it was there before. */
  readonly writtenIn?: Election;
}

/** An event on whose fan-out this process has the lease. */
export interface HeldEvent extends LeasedEvent {
  readonly lease: FanOutLease;
}

/** An event that may be fanned out. */
export interface UnfinishedEvent extends EventKey {
  readonly targetCount: number;
  /** The size of the stored document. Bytes. */
  readonly size: number;
}
