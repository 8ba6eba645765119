import type { FanOuts } from '../../events/service.ts';
import type { Outbox } from '../../events/store/outbox.ts';
import type { HeldEvent, StoredEvent } from '../../events/store/stored-event.ts';
import type { Logger } from '../../options/options.ts';
import type { FirstAttempt } from '../attempt/attempt.ts';
import { type AttemptRef, refOf, type WebhookRef } from '../attempt/attempt-ref.ts';
import { margin } from '../attempt/leases.ts';
import type { Receiver } from '../attempt/receiver.ts';
import { attemptsAllowed } from '../attempt/schedule.ts';
import type { DeliveryDocument } from '../model.ts';
import { firstDelivery } from './first-delivery.ts';
import type { FirstWrites } from './first-writes.ts';
import type { HeldEvents } from './held-events.ts';
import type { RoomQueue } from './room-queue.ts';

/** Deliveries of one event made at once, so that a fan-out of any size stays small in memory. */
const batchSize = 500;
/** How old a receiver may be, once read, when the event is stored: later changes to it are not seen. Milliseconds. */
const recent = 250;
/** Receivers that are read before an event is stored. */
const maxPrepared = 50;

export interface FanOutDeps {
  readonly outbox: Pick<Outbox, 'markFannedOut'>;
  readonly firstWrites: Pick<FirstWrites, 'begin' | 'store' | 'claims'>;
  readonly heldEvents: HeldEvents;
  readonly retryDelays: readonly number[];
  /** How long an event is held. Milliseconds. */
  readonly lease: number;
  /** Whether attempts are made in this process. */
  readonly isWorking: () => boolean;
  /** Whether a first attempt of this webhook could be made here at once. */
  readonly hasRoom: (webhook: WebhookRef) => boolean;
  /** Makes the first attempt; `false` if there is no room after all. */
  readonly handOver: (first: FirstAttempt) => boolean;
  /** The queue in which it waits for room. */
  readonly waiting: Pick<RoomQueue, 'has' | 'wait'>;
  /** Reads the webhook that the event goes to. */
  readonly receiver: (webhookId: string, event: Pick<StoredEvent, 'type' | 'test'>) => Promise<Receiver | null>;
  /** Starts these stored attempts as soon as there is room. */
  readonly enqueue: (refs: readonly AttemptRef[]) => void;
  /** Makes a worker look for events. */
  readonly wake: () => void;
  /** Receives the work that is left when the first attempts have begun. */
  readonly later: (work: Promise<void>) => void;
  readonly logger: Logger;
}

/** Whether every stored target can be the webhook of a delivery. */
function hasValidTargets({ targets }: StoredEvent): boolean {
  return Array.isArray(targets) && targets.every((target) => typeof target === 'string');
}

/** By webhook id. */
type Receivers = ReadonlyMap<string, Promise<Receiver | null>>;
const none: Receivers = new Map();

/** What makes first attempts. */
type Makers = Pick<FanOutDeps, 'hasRoom' | 'handOver' | 'waiting'>;

/** Makes no first attempt: every delivery is stored for any worker to claim. */
const noMakers: Makers = {
  hasRoom: () => false,
  handOver: () => false,
  waiting: { has: () => false, wait: () => null },
};

/** Makes one delivery for each target of an event. */
export interface FanOut extends FanOuts {
  /**
   * Starts the fan-out of an event that this process holds. Resolves when every first attempt has been handed over or waits for
   * room, and the other deliveries are stored. A second fan-out, or one in another process, adds nothing.
   */
  fanOut(leased: HeldEvent): Promise<void>;
  /** The same, but stores every delivery for any worker to claim. */
  store(leased: HeldEvent): Promise<void>;
  /** The same, but the caller makes the first attempts. */
  handTo(leased: HeldEvent, make: (first: FirstAttempt) => void): Promise<void>;
}

/**
 * If this process has room for a first attempt, it makes the attempt from memory, under the lease of the event, and the
 * outcome is the first write of the delivery. Without room, the attempt waits for a moment if room is expected; otherwise its
 * delivery is stored for any worker to claim. So are all deliveries of an event that another process held before, or to
 * which a webhook was added: some attempts may have been made.
 */
export function createFanOut(deps: FanOutDeps): FanOut {
  const { outbox, firstWrites, retryDelays } = deps;
  /** Fan-outs under way here; this process's own sweep may find their events, too. */
  const running = new Map<string, Promise<void>>();

  /** Hands a first attempt over. Resolves when its delivery is stored; `null` if it could not be handed over. */
  function handOver(
    delivery: DeliveryDocument,
    held: HeldEvent,
    receivers: Receivers,
    makers: Makers,
  ): Promise<void> | null {
    const { event, lease } = held;
    const mayAttempt = lease.isFirst && performance.now() < lease.heldUntil - margin;
    if (!event.body || !mayAttempt || !makers.hasRoom(delivery)) return null;
    const { claim, written } = firstWrites.begin(delivery, lease);
    // awaited below, unless something else fails first
    written.catch(() => {});
    const receiver = receivers.get(delivery.webhookId);
    if (makers.handOver({ claim, body: event.body, ...(receiver && { receiver }) })) return written;
    firstWrites.claims.forget(claim);
    return null;
  }

  /** Hands it over as soon as there is room; stores its delivery if that takes too long. `null` if it may not wait. */
  function handOverLater(delivery: DeliveryDocument, held: HeldEvent, makers: Makers): Promise<void> | null {
    if (!held.event.body || !held.lease.isFirst) return null;
    let written: Promise<void> | null = null;
    const waited = makers.waiting.wait(delivery, () => {
      // the receiver may have changed since the event was published
      written = handOver(delivery, held, none, makers);
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
    if (refs.length > 0) deps.enqueue(refs);
  }

  /** Resolves when every delivery is handed over, waits or is stored; with the writes that are still to come. */
  async function startDeliveries(held: HeldEvent, receivers: Receivers, makers: Makers): Promise<Promise<void>[]> {
    const { event, lease } = held;
    const maxAttempts = attemptsAllowed(retryDelays, event.test);
    const written: Promise<void>[] = [];
    for (let i = 0; i < event.targets.length; i += batchSize) {
      const rest: DeliveryDocument[] = [];
      for (const target of event.targets.slice(i, i + batchSize)) {
        const delivery = firstDelivery(event, target, maxAttempts);
        const isNext = !makers.waiting.has(target);
        const handed = (isNext && handOver(delivery, held, receivers, makers)) || handOverLater(delivery, held, makers);
        if (handed) written.push(handed);
        else rest.push(delivery);
      }
      await storeAll(rest, lease.isFirst);
    }
    return written;
  }

  /** If the mark fails, another fan-out follows, which adds nothing. */
  async function mark(written: readonly Promise<void>[], { _id, targets }: StoredEvent): Promise<void> {
    try {
      await Promise.all(written);
      await outbox.markFannedOut(_id, targets.length);
    } catch {
      // a sweep finds the event when its lease has lapsed
    }
  }

  async function start(held: HeldEvent, receivers: Receivers, given: Makers = deps): Promise<void> {
    const { event } = held;
    const makers = event.targetsAdded ? noMakers : given;
    if (!hasValidTargets(event)) throw new TypeError('The stored event has targets that are not ids of webhooks');
    const { _id: id } = event;
    deps.heldEvents.hold(held);
    const present = running.get(id);
    if (present) return present;
    const free = () => {
      running.delete(id);
      deps.heldEvents.release(id);
    };
    const started = startDeliveries(held, receivers, makers).then(
      (written) => deps.later(mark(written, event).finally(free)),
      (error) => {
        free();
        throw error;
      },
    );
    running.set(id, started);
    return started;
  }

  /** Nothing is lost: when the event's lease has lapsed, a sweep takes over. */
  function putOff({ _id: eventId }: StoredEvent, error: unknown): void {
    deps.logger.warn('fan-out put off to the next sweep', { eventId, reason: String(error) });
  }

  function read(event: Parameters<FanOuts['prepare']>[0]): Receivers {
    const { userId, targets } = event;
    const near = targets.slice(0, maxPrepared).filter((webhookId) => deps.hasRoom({ webhookId, userId }));
    const receivers = new Map(near.map((webhookId) => [webhookId, deps.receiver(webhookId, event)]));
    // awaited by the attempt if there is one
    for (const receiver of receivers.values()) receiver.catch(() => {});
    return receivers;
  }

  return {
    prepare(event) {
      if (!deps.isWorking() || deps.heldEvents.room <= 0) return null;
      const receivers = read(event);
      const readAt = performance.now();
      return {
        lease: deps.lease,
        begin(held) {
          const isRecent = performance.now() - readAt < recent;
          start(held, isRecent ? receivers : none).catch((error) => putOff(held.event, error));
        },
      };
    },
    wake: deps.wake,
    fanOut: (held) => start(held, none),
    store: (held) => start(held, none, noMakers),
    handTo(held, make) {
      const handOver = (first: FirstAttempt) => {
        make(first);
        return true;
      };
      return start(held, none, { hasRoom: () => true, handOver, waiting: { has: () => false, wait: () => null } });
    },
  };
}
