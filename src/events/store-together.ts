import type { ClientSession } from 'mongoose';
import { answered } from '../answered.ts';
import { bareWrites, durableTransaction } from '../collection.ts';
import type { DatabaseClock } from '../database-clock.ts';
import { hasLabel } from '../database-unavailable.ts';
import { createGroup } from '../group-commit.ts';
import { isProven } from './elections.ts';
import type { EventModel } from './model.ts';
import type { OpenTransactions } from './open-transactions.ts';
import type { NewEvent, StoredEvent } from './outbox.ts';
import { isUnreachable } from './unconfirmed.ts';

/** The first deliveries of an event, made before it is stored. */
export interface Birth {
  readonly documents: readonly object[];
  /** Told once whether they are stored; `false` also where nobody knows. */
  settle(stored: boolean): void;
}

/** Makes the first deliveries of events that are not stored yet. */
export interface Births {
  of(event: StoredEvent): Birth;
  insert(documents: readonly object[], session: ClientSession): Promise<unknown>;
}

export interface StoreTogetherDeps {
  readonly events: EventModel;
  readonly births: Births;
  readonly clock: DatabaseClock;
  readonly open: Pick<OpenTransactions, 'enter' | 'leave' | 'end' | 'endAbandoned'>;
}

/** Events with their deliveries. */
export interface StoreTogether {
  /**
   * Resolves to `null` when the event is to be stored in another way, or not at all.
   * @param until when its turn must have come, by `performance.now()`
   * @param condition without which nothing is to be stored; by default there is none
   */
  (event: NewEvent, until: number, condition?: Promise<boolean>): Promise<StoredEvent | null>;
  /** To be called when nothing more is stored. */
  close(): Promise<void>;
}

/** Events in one transaction: at 256 KiB each they stay below the 16 MB of one entry of the oplog. */
const most = 50;
const atOnce = 2;
/** Milliseconds. Three round trips follow, and each costs the same for many events as for one. */
const linger = 2;
/** An event to more webhooks than this is fanned out in batches after it was stored. */
const targetsLimit = 20;
/** Milliseconds. */
const undoWithin = 1_000;
/** For a transaction that is not answered, and what follows. Milliseconds. */
const storeWithin = 60_000;

/** An event to be stored, on its condition. */
interface Wanted {
  readonly event: NewEvent;
  readonly condition: Promise<boolean> | undefined;
}

/** What one transaction stores. */
interface Contents {
  readonly stored: readonly StoredEvent[];
  readonly made: readonly Birth[];
  readonly conditions: readonly (Promise<boolean> | undefined)[];
  /** Of the look-ups of their subscribers. */
  readonly elections: readonly string[];
}

/**
 * Stores events and their first deliveries at once: those published at the same moment become one transaction, that is one
 * wait for the journal, and no event has to be marked afterwards as fanned out. All of them are stored or none; where the
 * database refuses (an idempotency key that was used, a conflict, an election), each is stored on its own, as an event first.
 */
export function createStoreTogether({ events, births, clock, open }: StoreTogetherDeps): StoreTogether {
  const { insert } = bareWrites(events);
  const client = events.db.getClient();
  const idle: ClientSession[] = [];

  async function commit(session: ClientSession): Promise<void> {
    try {
      await session.commitTransaction();
    } catch (error) {
      if (!hasLabel(error, 'UnknownTransactionCommitResult')) throw error;
      // the driver has tried twice; whatever came of that, a third try tells
      await session.commitTransaction();
    }
  }

  /** @throws when nothing was stored, or nobody knows */
  async function transact(session: ClientSession, { stored, made, conditions, elections }: Contents): Promise<void> {
    session.startTransaction({ ...durableTransaction, readConcern: { level: 'local' } });
    const writtenIn = await insert(stored, session);
    // what is committed has been written by this primary, and a majority says so
    const isUnproven = elections.some((election) => !isProven(election, String(writtenIn)));
    if (isUnproven) throw new Error('another primary may have been asked for the subscribers');
    const deliveries = made.flatMap(({ documents }) => documents);
    await births.insert(deliveries, session);
    const met = await Promise.all(conditions);
    if (met.includes(false)) throw new Error('a condition is not met');
    await commit(session);
  }

  /** A transaction whose commit never arrived would lock what it has written against whoever writes it next. */
  async function undo(session: ClientSession): Promise<void> {
    if (session.inTransaction()) await session.abortTransaction();
    else await open.end(session);
  }

  async function giveUp(session: ClientSession, error: unknown): Promise<void> {
    const undone = undo(session).catch(() => {});
    void undone.then(() => session.endSession()).catch(() => {});
    await answered(undone, undoWithin).catch(() => {});
    // another write would wait as long as this one did
    if (isUnreachable(error)) throw error;
    // somebody else has written: who may be dead
    if (hasLabel(error, 'TransientTransactionError')) await open.endAbandoned();
  }

  /** Whether they are stored. */
  async function store(contents: Contents): Promise<boolean> {
    const session = idle.pop() ?? client.startSession();
    // how soon others get over the death of this process is nothing that a publisher waits for
    void open.enter(session);
    let isStored = false;
    try {
      await answered(transact(session, contents));
      isStored = true;
      idle.push(session);
    } catch (error) {
      await giveUp(session, error);
    } finally {
      open.leave();
      for (const birth of contents.made) birth.settle(isStored);
    }
    return isStored;
  }

  const group = createGroup<Wanted, StoredEvent | null>({
    most,
    atOnce,
    linger,
    within: storeWithin,
    async write(wanted) {
      const acceptedAt = await clock.now();
      const stored = wanted.map(({ event: { lookupElection: _, ...event } }): StoredEvent => {
        return { ...event, acceptedAt, fanOut: 'done' };
      });
      const conditions = wanted.map(({ condition }) => condition);
      const elections = wanted.flatMap(({ event }) => event.lookupElection ?? []);
      const isStored = await store({ stored, made: stored.map(births.of), conditions, elections });
      return stored.map((event) => (isStored ? event : null));
    },
  });

  async function storeTogether(
    event: NewEvent,
    until: number,
    condition?: Promise<boolean>,
  ): Promise<StoredEvent | null> {
    const count = event.targets.length;
    const isSuitable = count > 0 && count <= targetsLimit && event.lookupElection !== 'unknown';
    return isSuitable ? group.addUntil({ event, condition }, until) : null;
  }

  return Object.assign(storeTogether, {
    async close() {
      await Promise.all(idle.splice(0).map((session) => session.endSession()));
    },
  });
}
