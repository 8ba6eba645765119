import { durableCollection } from '../events/model.ts';
import type { Outbox, StoredEvent } from '../events/outbox.ts';
import { derivedId } from '../ids.ts';
import type { Bell } from './intake.ts';
import type { DeliveryDocument, DeliveryModel } from './model.ts';
import { attemptsAllowed } from './schedule.ts';

/** Deliveries written at once: a fan-out of any size stays small in memory and on the wire. */
const batchSize = 1_000;

export interface FanOutDeps {
  readonly deliveries: DeliveryModel;
  readonly outbox: Pick<Outbox, 'markFannedOut'>;
  readonly retryDelays: readonly number[];
  /** Rings for the first attempts. Nobody waits for it: a bell that is lost is made up for by the sweep. */
  readonly ring: (bells: readonly Bell[]) => void;
}

/** The delivery of an event to one of its webhooks, due at once. The same every time it is made. */
function firstDelivery(event: StoredEvent, webhookId: string, maxAttempts: number): DeliveryDocument {
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

function onlyDuplicates(error: unknown): boolean {
  const { writeErrors } = error as { writeErrors?: unknown };
  const all = (Array.isArray(writeErrors) ? writeErrors : [writeErrors]) as { code?: unknown }[];
  return all.length > 0 && all.every((one) => one?.code === 11_000);
}

/** Makes one delivery for each target of an event. Doing it again, or in two processes at once, adds nothing. */
export function createFanOut({ deliveries, outbox, retryDelays, ring }: FanOutDeps) {
  const collection = durableCollection(deliveries);

  async function insertMissing(batch: readonly DeliveryDocument[]): Promise<void> {
    try {
      await collection.insertMany([...batch], { ordered: false });
    } catch (error) {
      if (!onlyDuplicates(error)) throw error;
    }
  }

  return async function fanOut(event: StoredEvent): Promise<void> {
    const maxAttempts = attemptsAllowed(retryDelays, event.test);
    const bells: Bell[] = [];
    for (let i = 0; i < event.targets.length; i += batchSize) {
      const batch = event.targets.slice(i, i + batchSize).map((target) => firstDelivery(event, target, maxAttempts));
      await insertMissing(batch);
      bells.push(...batch.map(({ _id, webhookId, attempt }) => ({ deliveryId: _id, webhookId, attempt })));
    }
    ring(bells);
    await outbox.markFannedOut(event._id);
  };
}
