import type { FanOuts } from '../../events/service.ts';
import type { Outbox } from '../../events/store/outbox.ts';
import type { HeldEvent, StoredEvent } from '../../events/store/stored-event.ts';
import type { Logger } from '../../options/options.ts';
import { inFanOutSpan } from '../../tracing/event-spans.ts';
import type { FirstAttempt } from '../attempt/attempt.ts';
import type { DeliveryTarget } from '../attempt/delivery-target.ts';
import type { FanOutObserver } from './fan-out-observer.ts';
import type { HeldEvents } from './held-events.ts';
import {
  createStartDeliveries,
  type FirstAttemptMaker,
  noFirstAttempts,
  noReceivers,
  type StartDeliveriesDeps,
  type TargetLookUps,
} from './start-deliveries.ts';

/** How old a receiver may be, once read, when the event is stored: later changes to it are not seen. Milliseconds. */
const recent = 250;
/** Receivers that are read before an event is stored. */
const maxPrepared = 50;

export interface FanOutDeps extends StartDeliveriesDeps, FirstAttemptMaker {
  readonly outbox: Pick<Outbox, 'markFannedOut'>;
  readonly heldEvents: HeldEvents;
  /** How long an event is held. Milliseconds. */
  readonly lease: number;
  /** Whether attempts are made in this process. */
  readonly isWorking: () => boolean;
  /** Reads the webhook that the event goes to. */
  readonly receiver: (webhookId: string, event: Pick<StoredEvent, 'type' | 'test'>) => Promise<DeliveryTarget | null>;
  /** Makes a worker look for events. */
  readonly wake: () => void;
  /** Receives the work that is left when the first attempts have begun. */
  readonly later: (work: Promise<void>) => void;
  /** @default none */
  readonly fanOutObserver?: Pick<FanOutObserver, 'fannedOut'>;
  readonly logger: Logger;
}

/** Whether every stored target can be the webhook of a delivery. */
function hasValidTargets({ targets }: StoredEvent): boolean {
  return Array.isArray(targets) && targets.every((target) => typeof target === 'string');
}

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
  startWith(leased: HeldEvent, make: (first: FirstAttempt) => void): Promise<void>;
}

/** Starts the fan-out of an event, unless it is under way here. @param firstAttempts makes them. @default this process */
type Start = (held: HeldEvent, receivers: TargetLookUps, firstAttempts?: FirstAttemptMaker) => Promise<void>;

function createStart(deps: FanOutDeps): Start {
  const startDeliveries = createStartDeliveries(deps);
  /** Fan-outs under way here; this process's own sweep may find their events, too. */
  const running = new Map<string, Promise<void>>();

  /** If the mark fails, another fan-out follows, which adds nothing. */
  async function mark(writes: readonly Promise<void>[], { _id, userId, targets }: StoredEvent): Promise<void> {
    try {
      await Promise.all(writes);
      await deps.outbox.markFannedOut({ _id, userId }, targets.length);
    } catch {
      // a sweep finds the event when its lease has lapsed
    }
  }

  return async function start(held, receivers, firstAttempts = deps) {
    const { event } = held;
    const maker = event.targetsAdded ? noFirstAttempts : firstAttempts;
    if (!hasValidTargets(event)) throw new TypeError('The stored event has targets that are not ids of webhooks');
    const { _id: id } = event;
    deps.heldEvents.hold(held);
    const present = running.get(id);
    if (present) return present;
    deps.fanOutObserver?.fannedOut(event.targets.length);
    const free = () => {
      running.delete(id);
      deps.heldEvents.release(id);
    };
    const started = inFanOutSpan(event, () => startDeliveries({ held, receivers, maker })).then(
      (writes) => deps.later(mark(writes, event).finally(free)),
      (error) => {
        free();
        throw error;
      },
    );
    running.set(id, started);
    return started;
  };
}

/**
 * If this process has room for a first attempt, it makes the attempt from memory, under the lease of the event, and the
 * outcome is the first write of the delivery. Without room, the attempt waits for a moment if room is expected; otherwise its
 * delivery is stored for any worker to claim. So are all deliveries of an event that another process held before, or to
 * which a webhook was added: some attempts may have been made.
 */
export function createFanOut(deps: FanOutDeps): FanOut {
  const start = createStart(deps);

  /** Nothing is lost: when the event's lease has lapsed, a sweep takes over. */
  function leaveToSweep({ _id: eventId }: StoredEvent, error: unknown): void {
    deps.logger.warn('an event was not fanned out; a sweep tries again', { eventId, reason: String(error) });
  }

  function read(event: Parameters<FanOuts['prepare']>[0]): TargetLookUps {
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
          start(held, isRecent ? receivers : noReceivers).catch((error) => leaveToSweep(held.event, error));
        },
      };
    },
    wake: deps.wake,
    fanOut: (held) => start(held, noReceivers),
    store: (held) => start(held, noReceivers, noFirstAttempts),
    startWith(held, make) {
      const handOver = (first: FirstAttempt) => {
        make(first);
        return true;
      };
      return start(held, noReceivers, { ...noFirstAttempts, hasRoom: () => true, handOver });
    },
  };
}
