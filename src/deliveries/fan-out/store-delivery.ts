import type { SettleSubscribers } from '../../events/store/settle-subscribers.ts';
import type { TakeEvents } from '../../events/store/take-events.ts';
import type { Unstored } from '../unstored.ts';
import type { FanOut } from './fan-out.ts';

/** Stores a delivery that is not stored yet, unless some process holds its event. Resolves with whether it was stored. */
export type StoreDelivery = (userId: string, deliveryId: string) => Promise<boolean>;

/** Stores all deliveries of the event, for whoever claims them. Those that are stored already stay as they are. */
export function createStoreDelivery(deps: {
  readonly unstored: Pick<Unstored, 'eventOf'>;
  readonly take: TakeEvents;
  readonly settleSubscribers: SettleSubscribers;
  readonly fanOut: Pick<FanOut, 'store'>;
  /** How long the event is held meanwhile. Milliseconds. */
  readonly lease: number;
}): StoreDelivery {
  const { unstored, take, settleSubscribers, fanOut } = deps;

  return async function storeDelivery(userId, deliveryId) {
    const event = await unstored.eventOf(userId, deliveryId);
    const [taken] = event ? await take([event._id], deps.lease) : [];
    if (!taken) return false;
    await fanOut.store({ event: await settleSubscribers(taken.event), lease: taken.lease });
    return true;
  };
}
