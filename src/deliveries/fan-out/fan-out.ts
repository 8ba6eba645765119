import type { FanOuts } from '../../events/service.ts';
import type { HeldEvent, Outbox, StoredEvent } from '../../events/store/outbox.ts';
import { derivedId } from '../../ids.ts';
import type { Logger } from '../../options/options.ts';
import type { FirstAttempt, Receiver } from '../attempt/attempt.ts';
import type { AttemptRef, WebhookRef } from '../attempt/attempt-ref.ts';
import { margin } from '../attempt/leases.ts';
import { attemptsAllowed } from '../attempt/schedule.ts';
import type { DeliveryDocument } from '../model.ts';
import type { RoomQueue } from '../worker/room-queue.ts';
import type { FirstWrites } from './first-writes.ts';
import type { HeldEvents } from './held-events.ts';

/** Deliveries of one event made at once: a fan-out of any size stays small in memory. */
const batchSize = 500;
/** How old the reading of a receiver may be when the event is there: what has changed since is not seen. Milliseconds. */
const recent = 250;
/** Receivers that are read before an event is stored. */
const mostPrepared = 50;

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
  /** Makes it; `false` where there is no room for it after all. */
  readonly handOver: (first: FirstAttempt) => boolean;
  /** Where it waits until it could be. */
  readonly waiting: Pick<RoomQueue, 'has' | 'wait'>;
  /** Reads whom an event of this type goes to. */
  readonly receiver: (webhookId: string, event: Pick<StoredEvent, 'type' | 'test'>) => Promise<Receiver | null>;
  /** These are stored and due, and there was no room for them: they begin as soon as there is. */
  readonly enqueue: (refs: readonly AttemptRef[]) => void;
  /** Some worker has to look for events. */
  readonly wake: () => void;
  /** Takes what is still to be done when the first attempts have begun. */
  readonly later: (work: Promise<void>) => void;
  readonly logger: Logger;
}

/** The delivery of an event to one of its webhooks, due at once. The same every time it is made. */
export function firstDelivery(event: StoredEvent, webhookId: string, maxAttempts: number): DeliveryDocument {
  const { _id: eventId, userId, type, test, created, acceptedAt, deliveryKey } = event;
  return {
    _id: derivedId('dlv', created.getTime(), deliveryKey, eventId, webhookId),
    eventId,
    webhookId,
    userId,
    type,
    test,
    state: 'pending',
    attempt: 1,
    maxAttempts,
    starts: 0,
    dueAt: acceptedAt,
    claimableAt: acceptedAt,
    lease: null,
    attempts: [],
    createdAt: acceptedAt,
  };
}

/** Whether each of what the database has as targets can be that of a delivery. */
function hasValidTargets({ targets }: StoredEvent): boolean {
  return Array.isArray(targets) && targets.every((target) => typeof target === 'string');
}

/** By webhook. */
type Receivers = ReadonlyMap<string, Promise<Receiver | null>>;
const none: Receivers = new Map();

/** Who makes first attempts. */
type Makers = Pick<FanOutDeps, 'hasRoom' | 'handOver' | 'waiting'>;

/** None is made from memory: every delivery is stored, for whoever claims it. */
const noMakers: Makers = {
  hasRoom: () => false,
  handOver: () => false,
  waiting: { has: () => false, wait: () => null },
};

/** Makes one delivery for each target of an event. */
export interface FanOut extends FanOuts {
  /**
   * Begins the fan-out of an event that this process holds: resolves when the first attempts have been handed over or wait for
   * room, and the other deliveries are stored. Doing it again, or in two processes at once, adds nothing.
   */
  fanOut(leased: HeldEvent): Promise<void>;
  /** The same with every delivery stored, for whoever claims it. */
  store(leased: HeldEvent): Promise<void>;
  /** The same with the attempts made by the caller. */
  handTo(leased: HeldEvent, make: (first: FirstAttempt) => void): Promise<void>;
}

/**
 * Where this process has room for a first attempt, it is made from what is in memory, under the lease of its event, and its
 * outcome is the first write of its delivery. What it has no room for waits for a moment, if there will be room; else it is
 * stored for whoever claims it. So is everything of an event that somebody had before, or to which a webhook was added: attempts may
 * have been made.
 */
export function createFanOut(deps: FanOutDeps): FanOut {
  const { outbox, firstWrites, retryDelays } = deps;
  /** Those that this process is at, which a sweep of its own finds too. */
  const under = new Map<string, Promise<void>>();

  /** Hands a first attempt over; resolves when its delivery is stored, and is `null` where it could not be handed over. */
  function handOver(
    delivery: DeliveryDocument,
    held: HeldEvent,
    receivers: Receivers,
    makers: Makers,
  ): Promise<void> | null {
    const { event, lease } = held;
    const isOurs = lease.isFirst && performance.now() < lease.heldUntil - margin;
    if (!event.body || !isOurs || !makers.hasRoom(delivery)) return null;
    const { claim, written } = firstWrites.begin(delivery, lease);
    // awaited below, unless something else goes wrong before
    written.catch(() => {});
    const receiver = receivers.get(delivery.webhookId);
    if (makers.handOver({ claim, body: event.body, ...(receiver && { receiver }) })) return written;
    firstWrites.claims.forget(claim);
    return null;
  }

  /** Hands it over as soon as there is room; what has waited for too long is stored. `null` where it may not wait. */
  function handOverLater(delivery: DeliveryDocument, held: HeldEvent, makers: Makers): Promise<void> | null {
    if (!held.event.body || !held.lease.isFirst) return null;
    let written: Promise<void> | null = null;
    const begun = makers.waiting.wait(delivery, () => {
      // whom it goes to may have changed since it was published
      written = handOver(delivery, held, none, makers);
      return written !== null;
    });
    if (!begun) return null;
    const stored = begun.then(() => written ?? storeAll([delivery], true));
    // as above
    stored.catch(() => {});
    return stored;
  }

  /**
   * What is not stored of an event that somebody had before may have begun, and have ended that process. Nothing tells whether it has, so it
   * counts as one start of those that `startLimit` bounds. What was stored for want of room has not begun, and stays as it is.
   */
  async function storeAll(deliveries: readonly DeliveryDocument[], isFirst: boolean): Promise<void> {
    const areNew = await Promise.all(deliveries.map((one) => firstWrites.store(isFirst ? one : { ...one, starts: 1 })));
    const refs = deliveries
      .filter((_, i) => areNew[i])
      .map(({ _id: deliveryId, webhookId, userId, attempt }) => {
        return { deliveryId, webhookId, userId, attempt };
      });
    if (refs.length > 0) deps.enqueue(refs);
  }

  /** Resolves, when all is handed over, waits or is stored, with what is still to be stored. */
  async function place(held: HeldEvent, receivers: Receivers, makers: Makers): Promise<Promise<void>[]> {
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

  /** A mark that fails is made up for by another fan-out, which adds nothing. */
  async function mark(written: readonly Promise<void>[], { _id, targets }: StoredEvent): Promise<void> {
    try {
      await Promise.all(written);
      await outbox.markFannedOut(_id, targets.length);
    } catch {
      // the sweep finds it when its lease has lapsed
    }
  }

  async function start(held: HeldEvent, receivers: Receivers, given: Makers = deps): Promise<void> {
    const { event } = held;
    const makers = event.targetsAdded ? noMakers : given;
    if (!hasValidTargets(event)) throw new TypeError('The stored event has targets that are not ids of webhooks');
    const { _id: id } = event;
    deps.heldEvents.hold(held);
    const begun = under.get(id);
    if (begun) return begun;
    const free = () => {
      under.delete(id);
      deps.heldEvents.release(id);
    };
    const placed = place(held, receivers, makers).then(
      (written) => deps.later(mark(written, event).finally(free)),
      (error) => {
        free();
        throw error;
      },
    );
    under.set(id, placed);
    return placed;
  }

  /** The event is safe: when its lease has lapsed, a worker's sweep takes over. */
  function putOff({ _id: eventId }: StoredEvent, error: unknown): void {
    deps.logger.warn('fan-out put off to the next sweep', { eventId, reason: String(error) });
  }

  function read(event: Parameters<FanOuts['prepare']>[0]): Receivers {
    const { userId, targets } = event;
    const near = targets.slice(0, mostPrepared).filter((webhookId) => deps.hasRoom({ webhookId, userId }));
    const receivers = new Map(near.map((webhookId) => [webhookId, deps.receiver(webhookId, event)]));
    // awaited by the attempt, if there is one
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
