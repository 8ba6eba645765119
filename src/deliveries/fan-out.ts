import type { HeldEvent, Outbox, RenewEvents, StoredEvent } from '../events/outbox.ts';
import type { FanOuts } from '../events/service.ts';
import { derivedId } from '../ids.ts';
import { LeaseKeeper } from '../mongo/lease.ts';
import type { PendingWork } from '../mongo/periodic.ts';
import type { Logger } from '../options/options.ts';
import { inFanOutSpan } from '../tracing/spans.ts';
import type { DeliveryTarget, TargetLookUp } from '../webhooks/webhook.ts';
import type { FirstAttempt } from './attempt.ts';
import { type Claims, sendMargin } from './claims.ts';
import { type DeliveryDocument, refOf } from './model.ts';
import { attemptsAllowed } from './retry.ts';
import type { BeginFirst, FirstStart, Scheduler } from './scheduler.ts';
import { reasonToCancel } from './send.ts';

/** How old a webhook may be, once read, when the event is stored: later changes to it are not seen. Milliseconds. */
const recent = 250;
/** Webhooks that are read before an event is stored. */
const maxPrepared = 50;
/** Deliveries of one event made at once, so that a fan-out of any size stays small in memory. */
const batchSize = 500;
/** How often the leases of events are looked at, and after which time a renewal without an answer is repeated. Milliseconds. */
const lookInterval = 250;
const longestRenewal = 1_000;
/** The weight of all events that are fanned out here at once; further events stay in the database. Bytes. */
const weightLimit = 32 * 1024 * 1024;
/** The weight of an event without its body, and of each target. Bytes. */
const eventWeight = 4_096;
const targetWeight = 512;

/** Learns how large fan-outs are, and how much is written together. */
export interface FanOutObserver {
  /** The fan-out of an event to so many webhooks has begun in this process. */
  fannedOut(deliveries: number): void;
  /** So many deliveries were inserted by one write. */
  inserted(deliveries: number): void;
}

/** Makes one delivery for each target of an event. */
export interface FanOut extends Pick<FanOuts, 'prepare'> {
  /**
   * Starts the fan-out of an event that this process holds. Resolves when every first attempt has begun or waits for
   * room, and the other deliveries are stored. A second fan-out, or one in another process, adds nothing.
   */
  fanOut(held: HeldEvent): Promise<void>;
  /** The same, but stores every delivery for any worker to claim. */
  store(held: HeldEvent): Promise<void>;
  /** The same for an event with one target, whose first attempt the caller makes; `null` if it was stored instead. */
  firstAttempt(held: HeldEvent): Promise<FirstAttempt | null>;
  /** How many more bytes of events may be fanned out here; nothing if it is 0 or less. */
  readonly room: number;
}

/** Durations are milliseconds. */
export interface FanOutDeps {
  readonly outbox: Pick<Outbox, 'markFannedOut'>;
  readonly claims: Pick<Claims, 'first' | 'store'>;
  readonly scheduler: Pick<Scheduler, 'isWorking' | 'hasRoom' | 'first' | 'look'>;
  /** Reads a webhook with its opened secrets. */
  readonly target: TargetLookUp;
  readonly renewEvents: RenewEvents;
  readonly retryDelays: readonly number[];
  /** How long an event is held. */
  readonly lease: number;
  readonly pendingWork: PendingWork;
  /** @default none */
  readonly fanOutObserver?: Pick<FanOutObserver, 'fannedOut'>;
  readonly logger: Logger;
}

/** Webhooks that are being read, by id. */
type Targets = ReadonlyMap<string, Promise<DeliveryTarget | null>>;
/** Begins a first attempt, or says that its delivery is to be stored. */
type Begin = (delivery: DeliveryDocument, begin: BeginFirst) => FirstStart;

const noTargets: Targets = new Map();
const storeOnly: Begin = () => 'no room';

/**
 * If this process has room for a first attempt, it makes the attempt from memory, under the lease of the event, and the
 * outcome is the first write of the delivery. Without room, the attempt waits for a moment if room is expected; otherwise its
 * delivery is stored for any worker to claim. So are all deliveries of an event that another process held before, or to
 * which a webhook was added: some attempts may have been made.
 */
export function createFanOut(deps: FanOutDeps): FanOut {
  const { claims, scheduler, outbox, retryDelays, lease, pendingWork, logger } = deps;
  const heldEvents = new HeldEvents(deps);
  /** Fan-outs under way here; this process's own sweep may find their events, too. */
  const running = new Map<string, Promise<void>>();
  const schedule: Begin = (delivery, begin) => scheduler.first(refOf(delivery), begin);

  /**
   * If another process held the event before, an attempt that is not stored may have begun, and may have crashed that process.
   * Nothing tells whether it has, so it counts as one of the starts that are bounded.
   */
  async function storeAll(deliveries: readonly DeliveryDocument[], isFirst: boolean): Promise<void> {
    const areNew = await Promise.all(
      deliveries.map((delivery) => claims.store(isFirst ? delivery : { ...delivery, starts: 1 })),
    );
    deliveries.forEach((delivery, i) => {
      if (areNew[i]) scheduler.look(delivery);
    });
  }

  /** Starts one delivery. Resolves when it is stored; `null` if it is to be stored by the caller. */
  function startDelivery(
    { event: { body }, lease: eventLease }: HeldEvent,
    delivery: DeliveryDocument,
    targets: Targets,
    begin: Begin,
  ): Promise<void> | null {
    if (!body || !eventLease.isFirst) return null;
    let whenStored = Promise.resolve();
    let isImmediate = true;
    const started = begin(delivery, () => {
      if (performance.now() > eventLease.heldUntil - sendMargin) return null;
      const first = claims.first(delivery, eventLease);
      whenStored = first.whenStored;
      // awaited by the fan-out, unless something else fails first
      whenStored.catch(() => {});
      // a webhook may have changed since the event was published
      return { claim: first.claim, body, target: isImmediate ? targets.get(delivery.webhookId) : undefined };
    });
    isImmediate = false;
    if (started === 'no room') return null;
    if (started === 'begun') return whenStored;
    const stored = started.then((hasBegun) => (hasBegun ? whenStored : storeAll([delivery], true)));
    // as above
    stored.catch(() => {});
    return stored;
  }

  /** Resolves when every delivery has begun, waits or is stored; with the writes that are still to come. */
  async function startDeliveries(held: HeldEvent, targets: Targets, begin: Begin): Promise<Promise<void>[]> {
    const { event } = held;
    const maxAttempts = attemptsAllowed(retryDelays, event.test);
    const writes: Promise<void>[] = [];
    for (let i = 0; i < event.targets.length; i += batchSize) {
      const rest: DeliveryDocument[] = [];
      for (const webhookId of event.targets.slice(i, i + batchSize)) {
        const delivery = firstDelivery(event, webhookId, maxAttempts);
        const write = startDelivery(held, delivery, targets, event.targetsAdded ? storeOnly : begin);
        if (write) writes.push(write);
        else rest.push(delivery);
      }
      await storeAll(rest, held.lease.isFirst);
    }
    return writes;
  }

  /** If the mark fails, another fan-out follows when the event's lease has lapsed, which adds nothing. */
  async function mark(writes: readonly Promise<void>[], { _id, userId, targets }: StoredEvent): Promise<void> {
    try {
      await Promise.all(writes);
      await outbox.markFannedOut({ _id, userId }, targets.length);
    } catch {
      // a sweep finds the event
    }
    end(_id);
  }

  function end(eventId: string): void {
    running.delete(eventId);
    heldEvents.release(eventId);
  }

  /** Starts the fan-out of an event, unless it is under way here. */
  async function start(held: HeldEvent, targets: Targets, begin: Begin): Promise<void> {
    const { event } = held;
    if (!hasValidTargets(event)) throw new TypeError('The stored event has targets that are not ids of webhooks');
    heldEvents.hold(held);
    const present = running.get(event._id);
    if (present) return present;
    deps.fanOutObserver?.fannedOut(event.targets.length);
    const started = inFanOutSpan(event, () => startDeliveries(held, targets, begin)).then(
      (writes) => pendingWork.add(mark(writes, event)),
      (error) => {
        end(event._id);
        throw error;
      },
    );
    running.set(event._id, started);
    return started;
  }

  /** Reads the webhooks of first attempts that will begin at once. */
  function readTargets({ userId, targets, test, type }: Parameters<FanOuts['prepare']>[0]): Targets {
    const near = targets.slice(0, maxPrepared).filter((webhookId) => scheduler.hasRoom({ webhookId, userId }));
    const suffices = (target: DeliveryTarget) => reasonToCancel({ test, type }, target) === null;
    const reading = new Map(near.map((webhookId) => [webhookId, deps.target(webhookId, suffices)]));
    // awaited by the attempt if there is one
    for (const target of reading.values()) target.catch(() => {});
    return reading;
  }

  return {
    prepare(event) {
      if (!scheduler.isWorking || heldEvents.room <= 0) return null;
      const targets = readTargets(event);
      const readAt = performance.now();
      return {
        lease,
        begin(held) {
          const isRecent = performance.now() - readAt < recent;
          start(held, isRecent ? targets : noTargets, schedule).catch((error) => {
            const eventId = held.event._id;
            logger.warn('an event was not fanned out; a sweep tries again', { eventId, reason: String(error) });
          });
        },
      };
    },
    fanOut: (held) => start(held, noTargets, schedule),
    store: (held) => start(held, noTargets, storeOnly),
    async firstAttempt(held) {
      let first: FirstAttempt | null = null;
      await start(held, noTargets, (_, begin) => {
        first = begin();
        return first ? 'begun' : 'no room';
      });
      return first;
    },
    get room() {
      return heldEvents.room;
    },
  };
}

/** The delivery of an event to one of its webhooks, due at once. Making it again gives the same delivery. */
export function firstDelivery(event: StoredEvent, webhookId: string, maxAttempts: number): DeliveryDocument {
  const { _id: eventId, userId, type, test, traceparent, created, acceptedAt, deliveryKey } = event;
  return {
    _id: derivedId('dlv', created.getTime(), deliveryKey, eventId, webhookId),
    eventId,
    webhookId,
    userId,
    type,
    test,
    ...(traceparent !== undefined && { traceparent }),
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

/** Whether every stored target can be the webhook of a delivery. */
function hasValidTargets({ targets }: StoredEvent): boolean {
  return Array.isArray(targets) && targets.every((target) => typeof target === 'string');
}

function weightOf({ body, targets }: StoredEvent): number {
  return eventWeight + (body?.length ?? 0) + targets.length * targetWeight;
}

/** Durations are milliseconds. */
export interface HeldEventsDeps extends Pick<FanOutDeps, 'renewEvents' | 'lease' | 'logger'> {
  /** How often leases are looked at. @default 250 */
  readonly lookInterval?: number;
}

/** The events whose fan-out is under way here: their weight and their leases. Nearly every fan-out ends before half of its lease. */
export class HeldEvents {
  readonly #events = new Map<string, { readonly event: StoredEvent; readonly weight: number }>();
  readonly #keeper: LeaseKeeper<StoredEvent>;
  #weight = 0;

  constructor(deps: HeldEventsDeps) {
    this.#keeper = new LeaseKeeper({
      name: 'renewing the leases of events',
      async renew(events) {
        await deps.renewEvents(events, deps.lease);
        return events;
      },
      duration: deps.lease,
      interval: deps.lookInterval ?? lookInterval,
      renewBelow: deps.lease / 2,
      longestRenewal,
      logger: deps.logger,
    });
  }

  /** How much more may be held; nothing if it is 0 or less. Bytes. */
  get room(): number {
    return weightLimit - this.#weight;
  }

  /** Keeps the event's lease alive from now on. If it is held already, it continues under this lease. */
  hold({ event, lease: { heldUntil } }: HeldEvent): void {
    this.release(event._id);
    const weight = weightOf(event);
    this.#events.set(event._id, { event, weight });
    this.#weight += weight;
    this.#keeper.hold(event, heldUntil);
  }

  /** The event's fan-out has ended. */
  release(eventId: string): void {
    const held = this.#events.get(eventId);
    if (!held) return;
    this.#events.delete(eventId);
    this.#weight -= held.weight;
    void this.#keeper.drop(held.event);
  }
}
