import type { HeldEvent } from '../../events/store/stored-event.ts';
import type { FirstAttempt } from '../attempt/attempt.ts';
import { type AttemptRef, refOf, type WebhookRef } from '../attempt/attempt-ref.ts';
import { sendMargin } from '../attempt/claims/lease-renewal.ts';
import type { DeliveryTarget } from '../attempt/delivery-target.ts';
import { attemptsAllowed } from '../attempt/retry-delay.ts';
import type { DeliveryDocument } from '../model.ts';
import { firstDelivery } from './first-delivery.ts';
import type { FirstWrites } from './first-writes.ts';
import type { RoomQueue } from './room-queue.ts';

/** Deliveries of one event made at once, so that a fan-out of any size stays small in memory. */
const batchSize = 500;

/** Makes the first attempts of deliveries that are not stored yet. */
export interface FirstAttemptMaker {
  /** Whether a first attempt of this webhook would start at once: there is room, and nothing has been due for longer. */
  hasRoom(webhook: WebhookRef): boolean;
  /** Makes the first attempt; `false` if there is no room after all. Ask `hasRoom` before. */
  handOver(first: FirstAttempt): boolean;
  /** First attempts that wait for room. */
  readonly waiting: Pick<RoomQueue, 'has' | 'wait'>;
}

/** Makes no first attempt: every delivery is stored for any worker to claim. */
export const noFirstAttempts: FirstAttemptMaker = {
  hasRoom: () => false,
  handOver: () => false,
  waiting: { has: () => false, wait: () => null },
};

/** Receivers that are being read, by webhook id. */
export type TargetLookUps = ReadonlyMap<string, Promise<DeliveryTarget | null>>;
export const noReceivers: TargetLookUps = new Map();

/** What the deliveries of one event need. */
export interface StartContext {
  readonly held: HeldEvent;
  readonly receivers: TargetLookUps;
  readonly maker: FirstAttemptMaker;
}

export interface StartDeliveriesDeps {
  readonly firstWrites: Pick<FirstWrites, 'begin' | 'store' | 'claims'>;
  readonly retryDelays: readonly number[];
  /** Starts these stored attempts as soon as there is room. */
  readonly enqueue: (refs: readonly AttemptRef[]) => void;
}

/** Resolves when every delivery is handed over, waits or is stored; with the writes that are still to come. */
export type StartDeliveries = (context: StartContext) => Promise<Promise<void>[]>;

/** Starts the deliveries of an event that this process holds. */
export function createStartDeliveries({ firstWrites, retryDelays, enqueue }: StartDeliveriesDeps): StartDeliveries {
  /** Hands a first attempt over. Resolves when its delivery is stored; `null` if it could not be handed over. */
  function handOver(
    delivery: DeliveryDocument,
    { held: { event, lease }, maker }: StartContext,
    receivers: TargetLookUps,
  ): Promise<void> | null {
    const mayAttempt = lease.isFirst && performance.now() < lease.heldUntil - sendMargin;
    if (!event.body || !mayAttempt || !maker.hasRoom(delivery)) return null;
    const { claim, whenStored } = firstWrites.begin(delivery, lease);
    // awaited by the fan-out, unless something else fails first
    whenStored.catch(() => {});
    const receiver = receivers.get(delivery.webhookId);
    if (maker.handOver({ claim, body: event.body, ...(receiver && { receiver }) })) return whenStored;
    firstWrites.claims.forget(claim);
    return null;
  }

  /** Hands it over as soon as there is room; stores its delivery if that takes too long. `null` if it may not wait. */
  function handOverLater(delivery: DeliveryDocument, context: StartContext): Promise<void> | null {
    const { held, maker } = context;
    if (!held.event.body || !held.lease.isFirst) return null;
    let written: Promise<void> | null = null;
    const waited = maker.waiting.wait(delivery, () => {
      // the receiver may have changed since the event was published
      written = handOver(delivery, context, noReceivers);
      return written !== null;
    });
    if (!waited) return null;
    const stored = waited.then(() => written ?? storeAll([delivery], true));
    // as above
    stored.catch(() => {});
    return stored;
  }

  /**
   * If another process held the event before, an attempt that is not stored may have begun, and may have crashed that process.
   * Nothing tells whether it has, so it counts as one of the starts that `startLimit` bounds.
   */
  async function storeAll(deliveries: readonly DeliveryDocument[], isFirst: boolean): Promise<void> {
    const areNew = await Promise.all(
      deliveries.map((delivery) => firstWrites.store(isFirst ? delivery : { ...delivery, starts: 1 })),
    );
    const refs = deliveries.filter((_, i) => areNew[i]).map(refOf);
    if (refs.length > 0) enqueue(refs);
  }

  return async function startDeliveries(context) {
    const { held, receivers, maker } = context;
    const { event, lease } = held;
    const maxAttempts = attemptsAllowed(retryDelays, event.test);
    const written: Promise<void>[] = [];
    for (let i = 0; i < event.targets.length; i += batchSize) {
      const rest: DeliveryDocument[] = [];
      for (const target of event.targets.slice(i, i + batchSize)) {
        const delivery = firstDelivery(event, target, maxAttempts);
        const isNext = !maker.waiting.has(target);
        const handed = (isNext && handOver(delivery, context, receivers)) || handOverLater(delivery, context);
        if (handed) written.push(handed);
        else rest.push(delivery);
      }
      await storeAll(rest, lease.isFirst);
    }
    return written;
  };
}
