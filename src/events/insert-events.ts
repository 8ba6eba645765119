import type { DatabaseClock } from '../database-clock.ts';
import { createGroup } from '../group-commit.ts';
import type { NewEvent, StoredEvent } from './outbox.ts';

/** What this needs of the collection of events. */
interface Events {
  insertMany(
    documents: (NewEvent & { acceptedAt: Date; fanOut: 'pending' | 'done' })[],
    options: object,
  ): Promise<unknown>;
}

type Outcome = { readonly stored: StoredEvent } | { readonly error: unknown };

/** The driver's error of a bulk operation that went wrong in part. */
interface BulkError {
  readonly writeErrors?: readonly { readonly index: number }[];
  readonly result?: { getWriteConcernError?(): unknown };
}

/** Events in one write; at 256 KiB each they still fit into a message of the protocol. */
const most = 150;
/** Writes on their way: while one waits for its journal, the next is made. */
const atOnce = 2;

/** What became of each event when the write failed: those it names failed, the others were stored unless nobody confirmed it. */
function outcomesAfter(error: unknown, stored: readonly StoredEvent[]): Outcome[] {
  const { writeErrors, result } = error as BulkError;
  if (!writeErrors || writeErrors.length === 0) throw error;
  const failed = new Map(writeErrors.map((one) => [one.index, one]));
  const unconfirmed = result?.getWriteConcernError?.() !== undefined;
  return stored.map((event, i) => {
    const own = failed.get(i);
    if (own) return { error: own };
    return unconfirmed ? { error } : { stored: event };
  });
}

/**
 * Inserts events; those published at the same moment become one write, majority and journal.
 * Rejects with code 11000 where the user has an event with that idempotency key.
 */
export function createInsertEvent(events: Events, clock: DatabaseClock): (event: NewEvent) => Promise<StoredEvent> {
  const inserts = createGroup<NewEvent, Outcome>({
    most,
    atOnce,
    async write(group) {
      const acceptedAt = await clock.now();
      const stored = group.map((event) => {
        // for nobody: there is nothing left to do
        const fanOut = event.targets.length === 0 ? ('done' as const) : ('pending' as const);
        return { ...event, acceptedAt, fanOut };
      });
      try {
        await events.insertMany(stored, { ordered: false });
        return stored.map((event) => ({ stored: event }));
      } catch (error) {
        return outcomesAfter(error, stored);
      }
    },
  });

  return async function insertEvent(event) {
    const outcome = await inserts.add(event);
    if ('stored' in outcome) return outcome.stored;
    throw outcome.error;
  };
}
