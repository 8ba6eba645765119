import { createBatcher } from '../../mongo/batcher.ts';
import { type DatabaseClock, readMoment } from '../../mongo/clock.ts';
import { provesComplete } from '../../mongo/elections.ts';
import { isUnavailable } from '../../mongo/unavailable.ts';
import type { BareWrites, Inserted } from '../../mongo/writes/bare-writes.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import type { LeasedEvent, NewEvent, StoredEvent } from './stored-event.ts';

type InsertResult = LeasedEvent | { readonly error: unknown };

/** An event to be inserted. */
interface Insertion {
  readonly event: NewEvent;
  /** How long this process holds its fan-out; 0 leaves it to others. Milliseconds. */
  readonly lease: number;
}

/** Events in one write: at 256 KiB each they still fit into a protocol message. */
const maxSize = 150;
/** While one write waits for the journal, the next is sent. */
const concurrency = 2;

/** The event with its fan-out state: `done` if it is certain that there are no subscribers. */
export function withFanOut<Event extends Pick<NewEvent, 'targets' | 'lookupElection'>>(
  event: Event,
): Event & Pick<StoredEvent, 'fanOut'> {
  const isDone = event.targets.length === 0 && event.lookupElection === undefined;
  return { ...event, fanOut: isDone ? 'done' : 'pending' };
}

/** Removes `lookupElection` if a write by the primary of that election has proved that the look-up missed no webhook. */
export function proven(event: StoredEvent, writtenIn: string): StoredEvent {
  const { lookupElection, ...rest } = event;
  return lookupElection !== undefined && provesComplete(lookupElection, writtenIn) ? rest : event;
}

/**
 * Inserts events, each with this process's lease on its fan-out. Events published at the same moment share one write, acknowledged by
 * a majority and journaled. Rejects with code 11000 if the user has an event with that idempotency key, and with a
 * TimeoutError if its write has not started by `until`, by `performance.now()`.
 */
export function createInsertEvent(
  { insertEach }: Pick<BareWrites, 'insertEach'>,
  clock: DatabaseClock,
): (insertion: Insertion, until: number) => Promise<LeasedEvent> {
  /** The driver does not retry bare commands. If the first try has stored an event, the second meets it under its own id. */
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
      // taken before the clock is read: a process that stands still in between holds its leases for less time, not for more
      const askedAt = performance.now();
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
        const held = lease > 0 ? { heldUntil: askedAt + lease, since, isFirst: true } : null;
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
