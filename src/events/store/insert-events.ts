import { createBatcher } from '../../mongo/batcher.ts';
import { type DatabaseClock, readMoment } from '../../mongo/clock.ts';
import { isProven } from '../../mongo/elections.ts';
import { isUnavailable } from '../../mongo/unavailable.ts';
import type { BareWrites, Inserted } from '../../mongo/writes/bare-writes.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import type { LeasedEvent, NewEvent, StoredEvent } from './outbox.ts';

type InsertResult = LeasedEvent | { readonly error: unknown };

/** An event to be inserted. */
interface Insertion {
  readonly event: NewEvent;
  /** How long others are to leave its fan-out to this process; 0 where it leaves it to them. Milliseconds. */
  readonly lease: number;
}

/** Events in one write; at 256 KiB each they still fit into a message of the protocol. */
const maxSize = 150;
/** Writes on their way: while one waits for its journal, the next is made. */
const concurrency = 2;

/** The event as it is inserted: its fan-out is done where it is known to go to nobody. */
export function withFanOut<Event extends Pick<NewEvent, 'targets' | 'lookupElection'>>(
  event: Event,
): Event & Pick<StoredEvent, 'fanOut'> {
  const isDone = event.targets.length === 0 && event.lookupElection === undefined;
  return { ...event, fanOut: isDone ? 'done' : 'pending' };
}

/** Without its `lookupElection` where a write by the primary of that election has proved whom the event goes to. */
export function proven(event: StoredEvent, writtenIn: string): StoredEvent {
  const { lookupElection, ...rest } = event;
  return lookupElection !== undefined && isProven(lookupElection, writtenIn) ? rest : event;
}

/**
 * Inserts events, each under the lease of the process that fans it out; those published at the same moment become one
 * write, majority and journal. Rejects with code 11000 where the user has an event with that idempotency key. The turn of
 * each must come before `until`, by `performance.now()`.
 */
export function createInsertEvent(
  { insertEach }: Pick<BareWrites, 'insertEach'>,
  clock: DatabaseClock,
): (insertion: Insertion, until: number) => Promise<LeasedEvent> {
  /** The driver tries no bare command again. What the first try has stored is met by the second under its own id. */
  async function insertTwice(events: readonly StoredEvent[]): Promise<Inserted> {
    try {
      return await insertEach(events);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return insertEach(events);
    }
  }

  const inserts = createBatcher<Insertion, InsertResult>({
    maxSize,
    concurrency,
    async write(group) {
      // before the clock is read: a process that stands still in between holds its leases for less, not for more
      const asked = performance.now();
      const since = await readMoment(clock);
      const { time: acceptedAt } = since;
      const events = group.map(({ event, lease }): StoredEvent => {
        const fanOutAt = new Date(acceptedAt.getTime() + lease);
        return withFanOut({ ...event, acceptedAt, fanOutAt, fanOutLeases: lease > 0 ? 1 : 0 });
      });
      const { failures, electionId = 'standalone' } = await insertTwice(events);
      return events.map((event, i): InsertResult => {
        const error = failures.get(i);
        if (error && !isDuplicateKey(error, '_id')) return { error };
        const lease = group[i]?.lease ?? 0;
        const held = lease > 0 ? { heldUntil: asked + lease, since, isFirst: true } : null;
        return { event: proven(event, electionId), lease: held };
      });
    },
  });

  return async function insertEvent(insertion, until) {
    const result = await inserts.addUntil(insertion, until);
    if ('error' in result) throw result.error;
    return result;
  };
}
