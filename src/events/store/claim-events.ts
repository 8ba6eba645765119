import { randomUUID } from 'node:crypto';
import { type DatabaseClock, fromNow, readMoment } from '../../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../../mongo/collection.ts';
import { Leases } from '../../mongo/lease.ts';
import { bareWrites } from '../../mongo/writes/bare-writes.ts';
import type { EventModel } from '../model.ts';
import { byKeys, hintOfKeys } from './by-keys.ts';
import { proven } from './insert-events.ts';
import { mayBeClaimed } from './outbox.ts';
import type { EventKey, HeldEvent, StoredEvent } from './stored-event.ts';

/**
 * Takes those of these events whose fan-out is not done and that no other process holds. A majority acknowledges the leases, because
 * first attempts are sent under them alone.
 * @param lease milliseconds
 */
export type ClaimEvents = (events: readonly EventKey[], lease: number) => Promise<HeldEvent[]>;

/**
 * Extends the leases of events whose fan-out is not done and that no other process has taken since.
 * @param lease milliseconds from now
 */
export type RenewEvents = (
  held: readonly Pick<StoredEvent, '_id' | 'userId' | 'fanOutLeases'>[],
  lease: number,
) => Promise<void>;

/** The lease on the fan-out of an event. Renewals are fenced by the number of leases there have been. */
const leaseFields = { fence: 'fanOutLeases', until: 'fanOutAt' } as const;

export function createRenewEvents(events: EventModel): RenewEvents {
  const collection = durableCollection(events);

  return async function renewEvents(held, duration) {
    const leases = new Leases(collection, { ...leaseFields, duration });
    const { userId } = byKeys(held);
    const fenced = held.map(({ _id, fanOutLeases }) => ({ _id, fence: fanOutLeases }));
    // if a failover loses a renewal, an attempt may be made twice: that is cheaper than waiting for a majority each time
    const options = { ...hintOfKeys, writeConcern: { w: 1 } };
    await leases.renew(fenced, { where: { userId, fanOut: 'pending' }, options });
  };
}

export function createClaimEvents(events: EventModel, clock: DatabaseClock): ClaimEvents {
  const collection = durableCollection(events);
  const { updateEach } = bareWrites(events);

  return async function claimEvents(wanted, lease) {
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
    const [since, taken] = await Promise.all([
      readMoment(clock),
      collection.find({ ...byKeys(wanted), fanOutToken }, { ...inOneBatch, ...hintOfKeys }).toArray(),
    ]);
    return taken.map((event) => ({
      event: proven(event, electionId),
      lease: { heldUntil: askedAt + lease, since, isFirst: event.fanOutLeases === 1 },
    }));
  };
}
