import { durableCollection } from '../../mongo/collection.ts';
import type { EventModel } from '../model.ts';
import type { EventSubscribers } from '../publication.ts';
import type { StoredEvent } from './outbox.ts';

/**
 * Adds to a stored event the webhooks that a replaced primary may not have known of, or not as active, where nothing proves
 * that it was none.
 * Such an event is to be fanned out only after that; doing it again does no harm.
 * @throws TimeoutError when the database does not confirm who is subscribed
 */
export type SettleSubscribers = (event: StoredEvent) => Promise<StoredEvent>;

/** @param confirmedSubscribers a look-up that no replaced primary answers */
export function createSettleSubscribers(
  events: EventModel,
  confirmedSubscribers: (userId: string, type: string) => Promise<EventSubscribers>,
): SettleSubscribers {
  const collection = durableCollection(events);

  return async function settleSubscribers(event) {
    const { lookupElection, ...settled } = event;
    if (lookupElection === undefined) return event;
    const { targets, skipped } = await confirmedSubscribers(event.userId, event.type);
    const more = {
      targets: targets.filter((id) => !event.targets.includes(id)),
      skipped: skipped.filter((id) => !event.targets.includes(id) && !event.skipped.includes(id)),
    };
    // those that the replaced primary still had as inactive
    const back = event.skipped.filter((id) => targets.includes(id));
    if (more.targets.length + more.skipped.length + back.length === 0) return settled;
    const $addToSet = { targets: { $each: more.targets }, skipped: { $each: more.skipped } };
    await collection.updateOne({ _id: event._id }, { $addToSet, $set: { fanOut: 'pending', targetsAdded: true } });
    if (back.length > 0) await collection.updateOne({ _id: event._id }, { $pull: { skipped: { $in: back } } });
    return {
      ...settled,
      targetsAdded: true,
      targets: [...event.targets, ...more.targets],
      skipped: [...event.skipped, ...more.skipped].filter((id) => !back.includes(id)),
    };
  };
}
