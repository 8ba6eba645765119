import type { BareWrites, Inserted } from '../collection.ts';
import type { DatabaseClock } from '../database-clock.ts';
import { isUnavailable } from '../database-unavailable.ts';
import { isDuplicateKey } from '../duplicate-key.ts';
import { createGroup } from '../group-commit.ts';
import { isProven } from './elections.ts';
import type { NewEvent, StoredEvent } from './outbox.ts';

type Outcome = { readonly stored: StoredEvent } | { readonly error: unknown };

/** Events in one write; at 256 KiB each they still fit into a message of the protocol. */
const most = 150;
/** Writes on their way: while one waits for its journal, the next is made. */
const atOnce = 2;

/** As it is inserted. There is nothing left to do for one that is known to be for nobody. */
export function withFanOut<Event extends Pick<NewEvent, 'targets' | 'lookupElection'>>(
  event: Event,
): Event & Pick<StoredEvent, 'fanOut'> {
  const isDone = event.targets.length === 0 && event.lookupElection === undefined;
  return { ...event, fanOut: isDone ? 'done' : 'pending' };
}

/** Without the mark that its subscribers are unproven, where the write has proved them. */
function proven(event: StoredEvent, writtenIn: string): StoredEvent {
  const { lookupElection, ...rest } = event;
  return lookupElection !== undefined && isProven(lookupElection, writtenIn) ? rest : event;
}

/**
 * Inserts events; those published at the same moment become one write, majority and journal.
 * Rejects with code 11000 where the user has an event with that idempotency key. Its turn must come before `until`,
 * by `performance.now()`.
 */
export function createInsertEvent(
  { insertEach }: Pick<BareWrites, 'insertEach'>,
  clock: DatabaseClock,
): (event: NewEvent, until: number) => Promise<StoredEvent> {
  /** The driver tries no bare command again. What the first try has stored is met by the second under its own id. */
  async function insertTwice(events: readonly StoredEvent[]): Promise<Inserted> {
    try {
      return await insertEach(events);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return insertEach(events);
    }
  }

  const inserts = createGroup<NewEvent, Outcome>({
    most,
    atOnce,
    async write(group) {
      const acceptedAt = await clock.now();
      const events = group.map((event): StoredEvent => withFanOut({ ...event, acceptedAt }));
      const { failures, electionId = 'standalone' } = await insertTwice(events);
      return events.map((event, i) => {
        const error = failures.get(i);
        return error && !isDuplicateKey(error, '_id') ? { error } : { stored: proven(event, electionId) };
      });
    },
  });

  return async function insertEvent(event, until) {
    const outcome = await inserts.addUntil(event, until);
    if ('stored' in outcome) return outcome.stored;
    throw outcome.error;
  };
}
