import type { FannedOut, HeldEvent, Outbox, RenewEvents, StoredEvent } from '../events/outbox.ts';
import type { FanOuts, PreparedFanOut } from '../events/service.ts';
import { derivedId } from '../ids.ts';
import { LeaseKeeper } from '../mongo/lease.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { PendingWork } from '../pending-work.ts';
import { inFanOutSpan } from '../tracing/spans.ts';
import type { DeliveryTarget } from '../webhooks/webhook.ts';
import type { FirstAttempt } from './attempt.ts';
import { type AttemptRef, type Claims, refOf, sendMargin } from './claims.ts';
import type { DeliveryDocument } from './model.ts';
import { attemptsAllowed } from './retry.ts';
import type { BeginFirst, FirstStart, Scheduler } from './scheduler.ts';

/** How long ago the read of a webhook may have begun when an attempt that uses it begins: later changes are not seen. Milliseconds. */
const recent = 250;
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

/** Durations are milliseconds. */
export interface FanOutDeps extends Pick<ResolvedOptions, 'retryDelays' | 'logger'> {
  readonly outbox: Pick<Outbox, 'markFannedOut'>;
  readonly claims: Pick<Claims, 'first' | 'store'>;
  readonly scheduler: Pick<Scheduler, 'isWorking' | 'first' | 'look'>;
  readonly renewEvents: RenewEvents;
  /** How long an event is held. */
  readonly lease: number;
  readonly pendingWork: PendingWork;
  /** @default none */
  readonly fanOutObserver?: Pick<FanOutObserver, 'fannedOut'>;
}

/** How the deliveries of one event begin. */
interface Start {
  /** Begins first attempts, or says that their deliveries are to be stored. */
  readonly starter: { first(ref: AttemptRef, begin: BeginFirst): FirstStart };
  /** A webhook that has been read, or is being read. @default each attempt reads it */
  readonly target?: (webhookId: string) => FirstAttempt['target'];
}

const storeOnly: Start = { starter: { first: () => 'no room' } };

/**
 * Makes one delivery for each target of an event that this process holds. If it has room for a first attempt, it makes the
 * attempt from memory, under the lease of the event, and the outcome is the first write of the delivery. Without room, the
 * attempt waits for a moment if room is expected; otherwise its delivery is stored for any worker to claim. So are all
 * deliveries of an event that another process held before, or to which a webhook was added: some attempts may have been made.
 *
 * A fan-out resolves when every first attempt has begun or waits for room, and the other deliveries are stored. A second one, or
 * one in another process, adds nothing.
 */
export class FanOut {
  readonly #deps: FanOutDeps;
  readonly #held: HeldEvents;
  /** Fan-outs under way here; this process's own sweep may find their events, too. */
  readonly #running = new Map<string, Promise<void>>();

  constructor(deps: FanOutDeps) {
    this.#deps = deps;
    this.#held = new HeldEvents(deps);
  }

  /** How many more bytes of events may be fanned out here; nothing if it is 0 or less. */
  get room(): number {
    return this.#held.room;
  }

  /** See {@link FanOuts}. */
  prepare(): PreparedFanOut | null {
    const { scheduler, lease, logger } = this.#deps;
    if (!scheduler.isWorking || this.#held.room <= 0) return null;
    return {
      lease,
      begin: (held, read) => {
        const target = (id: string) => (read && isRecent(read.readAt) ? read.target(id) : undefined);
        this.#start(held, { starter: scheduler, target }).catch((error) => {
          const eventId = held.event._id;
          logger.warn('an event was not fanned out; a sweep tries again', { eventId, reason: String(error) });
        });
      },
    };
  }

  /** Begins the first attempts of an event that there is room for, and stores the other deliveries. */
  fanOut(held: HeldEvent, target?: Start['target']): Promise<void> {
    return this.#start(held, { starter: this.#deps.scheduler, ...(target && { target }) });
  }

  /** Stores every delivery of the event for any worker to claim. */
  store(held: HeldEvent): Promise<void> {
    return this.#start(held, storeOnly);
  }

  /** Fans out an event with one target, whose first attempt the caller makes; `null` if it was stored instead. */
  async firstAttempt(held: HeldEvent): Promise<FirstAttempt | null> {
    let first: FirstAttempt | null = null;
    const starter: Start['starter'] = {
      first(_, begin) {
        first = begin();
        return first ? 'begun' : 'no room';
      },
    };
    await this.#start(held, { starter });
    return first;
  }

  /** Starts the fan-out of an event, unless it is under way here. */
  async #start(held: HeldEvent, start: Start): Promise<void> {
    const { event } = held;
    const { _id, userId, targets } = event;
    if (!Array.isArray(targets) || targets.some((target) => typeof target !== 'string')) {
      throw new TypeError('The stored event has targets that are not ids of webhooks');
    }
    this.#held.hold(held);
    const present = this.#running.get(_id);
    if (present) return present;
    this.#deps.fanOutObserver?.fannedOut(targets.length);
    const started = inFanOutSpan(event, () => this.#startAll(held, start)).then(
      (writes) => this.#markWhenStored({ _id, userId, targets: targets.length }, writes),
      (error) => {
        this.#end(_id);
        throw error;
      },
    );
    this.#running.set(_id, started);
    return started;
  }

  /** Apart from the fan-out: the event's body must not stay in memory until the mark is written. */
  #markWhenStored(event: FannedOut, writes: readonly Promise<void>[]): void {
    const { outbox, pendingWork } = this.#deps;
    const end = () => this.#end(event._id);
    const mark = () => {
      // its lease lasts until the mark, and what another fan-out would add is there
      this.#held.release(event._id);
      return outbox.markFannedOut(event);
    };
    // without the mark, another fan-out follows when the event's lease has lapsed, which adds nothing
    pendingWork.add(Promise.all(writes).then(mark).then(end, end));
  }

  #end(eventId: string): void {
    this.#running.delete(eventId);
    this.#held.release(eventId);
  }

  /** Resolves when every delivery has begun, waits or is stored; with the writes that are still to come. */
  async #startAll(held: HeldEvent, start: Start): Promise<Promise<void>[]> {
    const { event, lease } = held;
    const maxAttempts = attemptsAllowed(this.#deps.retryDelays, event.test);
    const mayBegin = lease.isFirst && !event.targetsAdded;
    const writes: Promise<void>[] = [];
    for (let i = 0; i < event.targets.length; i += batchSize) {
      const rest: DeliveryDocument[] = [];
      for (const webhookId of event.targets.slice(i, i + batchSize)) {
        const delivery = firstDelivery(event, webhookId, maxAttempts);
        const write = mayBegin ? this.#startOne(held, delivery, start) : null;
        if (write) writes.push(write);
        else rest.push(delivery);
      }
      if (rest.length > 0) await this.#store(rest, lease.isFirst);
    }
    return writes;
  }

  /** Starts one delivery. Resolves when it is stored; `null` if it is to be stored by the caller. */
  #startOne({ event, lease }: HeldEvent, delivery: DeliveryDocument, start: Start): Promise<void> | null {
    const { body } = event;
    if (!body) return null;
    let whenStored = Promise.resolve();
    const started = start.starter.first(refOf(delivery), () => {
      if (performance.now() > lease.heldUntil - sendMargin) return null;
      const first = this.#deps.claims.first(delivery, lease);
      whenStored = first.whenStored;
      // awaited by the fan-out, unless something else fails first
      whenStored.catch(() => {});
      return { claim: first.claim, body, target: start.target?.(delivery.webhookId) };
    });
    if (started === 'no room') return null;
    if (started === 'begun') return whenStored;
    const stored = started.then((hasBegun) => (hasBegun ? whenStored : this.#store([delivery], true)));
    // as above
    stored.catch(() => {});
    return stored;
  }

  /**
   * If another process held the event before, an attempt that is not stored may have begun, and may have crashed that process.
   * Nothing tells whether it has, so it counts as one of the starts that are bounded.
   */
  async #store(deliveries: readonly DeliveryDocument[], isFirst: boolean): Promise<void> {
    const { claims, scheduler } = this.#deps;
    const areNew = await Promise.all(
      deliveries.map((delivery) => claims.store(isFirst ? delivery : { ...delivery, starts: 1 })),
    );
    deliveries.forEach((delivery, i) => {
      if (areNew[i]) scheduler.look(delivery);
    });
  }
}

function isRecent(readAt: number): boolean {
  return performance.now() - readAt < recent;
}

/**
 * Reads a webhook for all attempts that begin within 250 ms after the read began. To be made when their events are taken, so that
 * each attempt sees what was changed before its event was published.
 */
export function createShortReads(read: (webhookId: string) => Promise<DeliveryTarget | null>) {
  const reads = new Map<string, { readonly at: number; readonly target: Promise<DeliveryTarget | null> }>();

  return function target(webhookId: string): Promise<DeliveryTarget | null> {
    const present = reads.get(webhookId);
    if (present && isRecent(present.at)) return present.target;
    const begun = { at: performance.now(), target: read(webhookId) };
    reads.set(webhookId, begun);
    return begun.target;
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

const weightOf = ({ body, targets }: StoredEvent) => eventWeight + (body?.length ?? 0) + targets.length * targetWeight;

/** The events whose fan-out is under way here: their weight and their leases. Nearly every fan-out ends before half of its lease. */
class HeldEvents {
  /** By their ids. The entry of a released event is emptied: old tables of a `Map` keep its values (`pending-work.ts`). */
  readonly #events = new Map<string, { event: StoredEvent | undefined }>();
  readonly #keeper: LeaseKeeper<StoredEvent>;
  #weight = 0;

  constructor(deps: Pick<FanOutDeps, 'renewEvents' | 'lease' | 'logger'>) {
    this.#keeper = new LeaseKeeper({
      name: 'renewing the leases of events',
      async renew(events) {
        await deps.renewEvents(events, deps.lease);
        return events;
      },
      duration: deps.lease,
      interval: lookInterval,
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
    this.#events.set(event._id, { event });
    this.#weight += weightOf(event);
    this.#keeper.hold(event, heldUntil);
  }

  /** The event's fan-out has ended. */
  release(eventId: string): void {
    const held = this.#events.get(eventId);
    if (!held?.event) return;
    const { event } = held;
    held.event = undefined;
    this.#events.delete(eventId);
    this.#weight -= weightOf(event);
    void this.#keeper.drop(event);
  }
}
