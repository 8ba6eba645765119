import { bareWrites, durableCollection } from '../collection.ts';
import type { DatabaseClock } from '../database-clock.ts';
import { failuresIn, isDuplicateKey } from '../duplicate-key.ts';
import type { Outbox, StoredEvent } from '../events/outbox.ts';
import type { Birth, Births } from '../events/store-together.ts';
import { createGroup } from '../group-commit.ts';
import { derivedId } from '../ids.ts';
import type { BornClaim } from './attempt.ts';
import type { AttemptRef, WebhookRef } from './attempt-ref.ts';
import type { Claims } from './claims.ts';
import type { DeliveryDocument, DeliveryModel } from './model.ts';
import { attemptsAllowed } from './schedule.ts';

/** Deliveries of one event made at once: a fan-out of any size stays small in memory. */
const batchSize = 500;
/** Deliveries in one write. */
const most = 500;

export interface FanOutDeps {
  readonly deliveries: DeliveryModel;
  readonly outbox: Pick<Outbox, 'markFannedOut'>;
  readonly claims: Pick<Claims, 'born'>;
  readonly clock: DatabaseClock;
  readonly retryDelays: readonly number[];
  /** Whether this process could make a first attempt of this webhook at once. */
  readonly hasRoom: (webhook: WebhookRef) => boolean;
  /** Makes it, as soon as it is stored. */
  readonly handOver: (born: BornClaim) => void;
  /** Rings for the first attempts of the others. Nobody waits for it: a bell that is lost is made up for by the sweep. */
  readonly ring: (bells: readonly AttemptRef[]) => void;
  /** Takes what is still to be done when the deliveries are there. */
  readonly later: (work: Promise<void>) => void;
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

/** Makes one delivery for each target of an event. */
export interface FanOut {
  /** Of an event that is stored. Doing it again, or in two processes at once, adds nothing. */
  fanOut(event: StoredEvent): Promise<void>;
  /** Of an event that is to be stored together with them. */
  readonly births: Births;
}

/** How a delivery is stored; resolves with whether it is. */
type Store = (delivery: DeliveryDocument) => Promise<boolean>;

/**
 * Where this process has room for a first attempt, the delivery is stored as claimed already, and the attempt is made from
 * what is in memory as soon as it is stored: that saves a claim, and the time that it takes.
 */
export function createFanOut(deps: FanOutDeps): FanOut {
  const { outbox, claims, clock, retryDelays } = deps;
  const collection = durableCollection(deps.deliveries);
  const { insert } = bareWrites(deps.deliveries);
  /** Those that this process is at, which a sweep of its own finds too. */
  const under = new Map<string, Promise<void>>();

  /** Resolves with what went wrong, if anything did. */
  const inserts = createGroup<DeliveryDocument, unknown>({
    most,
    atOnce: 2,
    async write(documents) {
      try {
        await collection.insertMany([...documents], { ordered: false });
        return [];
      } catch (error) {
        const failures = failuresIn(error);
        return documents.map((_, i) => failures.get(i));
      }
    },
  });

  /** Resolves with whether the delivery is new. */
  async function insertNew(delivery: DeliveryDocument): Promise<boolean> {
    const failure = await inserts.add(delivery);
    if (failure === undefined) return true;
    if (isDuplicateKey(failure)) return false;
    throw failure;
  }

  /** Resolves with a bell, when the delivery waits for somebody to claim it. */
  async function place(
    delivery: DeliveryDocument,
    body: Buffer | undefined,
    now: Date,
    store: Store,
  ): Promise<AttemptRef[]> {
    const { _id: deliveryId, webhookId, userId, attempt } = delivery;
    if (!body || !deps.hasRoom({ webhookId, userId })) {
      await store(delivery);
      return [{ deliveryId, webhookId, userId, attempt }];
    }
    const claim = claims.born(delivery, now);
    const stored = store(claim.delivery);
    deps.handOver({ claim, body, stored });
    await stored;
    return [];
  }

  async function placeAll(
    event: StoredEvent,
    targets: readonly string[],
    now: Date,
    store: Store,
  ): Promise<AttemptRef[]> {
    const maxAttempts = attemptsAllowed(retryDelays, event.test);
    const deliveries = targets.map((target) => firstDelivery(event, target, maxAttempts));
    const bells = await Promise.all(deliveries.map((delivery) => place(delivery, event.body, now, store)));
    return bells.flat();
  }

  async function make(event: StoredEvent): Promise<void> {
    if (!hasValidTargets(event)) throw new TypeError('The stored event has targets that are not ids of webhooks');
    for (let i = 0; i < event.targets.length; i += batchSize) {
      const batch = event.targets.slice(i, i + batchSize);
      deps.ring(await placeAll(event, batch, await clock.now(), insertNew));
    }
  }

  /** A mark that fails is made up for by another fan-out, which adds nothing. */
  function mark(id: string): void {
    const marked = outbox
      .markFannedOut(id)
      .catch(() => {})
      .then(() => void under.delete(id));
    deps.later(marked);
  }

  function birthOf(event: StoredEvent): Birth {
    const documents: DeliveryDocument[] = [];
    let settle = (_stored: boolean) => {};
    const settled = new Promise<boolean>((resolve) => {
      settle = resolve;
    });
    const store: Store = (delivery) => {
      documents.push(delivery);
      return settled;
    };
    void placeAll(event, event.targets, event.acceptedAt, store).then(async (bells) => {
      if (await settled) deps.ring(bells);
    });
    return { documents, settle };
  }

  return {
    fanOut(event) {
      const id = event._id;
      const begun = under.get(id);
      if (begun) return begun;
      const made = make(event).then(
        () => mark(id),
        (error) => {
          under.delete(id);
          throw error;
        },
      );
      under.set(id, made);
      return made;
    },
    births: { of: birthOf, insert },
  };
}
