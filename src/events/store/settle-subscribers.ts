import { durableCollection } from '../../mongo/collection.ts';
import type { EventModel } from '../model.ts';
import type { AddressedEvent, EventSubscribers, StoredEvent } from './stored-event.ts';

/**
 * Completes the subscribers of a stored event if a replaced primary may have looked them up: it may not have known a webhook, or
 * not as active. Such an event must not be fanned out before. Calling it again does no harm.
 * @param body an envelope with the event's type and data. @default the event's own
 * @throws TimeoutError if the database does not confirm the subscribers
 */
export type SettleSubscribers = (event: StoredEvent, body?: Buffer) => Promise<StoredEvent>;

/** @param confirmedSubscribers a look-up that no replaced primary answers */
export function createSettleSubscribers(
  events: EventModel,
  confirmedSubscribers: (event: AddressedEvent) => Promise<EventSubscribers>,
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
