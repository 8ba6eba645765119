import { GatewayError } from '../../errors.ts';
import type { EventModel } from '../../events/model.ts';
import { durableCollection, insertOnly } from '../../mongo/collection.ts';
import { findConfirmed, findOneConfirmed } from '../../mongo/confirmed-reads.ts';
import type { AttemptRef } from '../attempt/attempt-ref.ts';
import { attemptsAllowed } from '../attempt/retry-delay.ts';
import { firstDelivery } from '../fan-out/first-delivery.ts';
import type { DeliveryDocument, DeliveryModel } from '../model.ts';
import type { MakeManualAttempt } from './manual-attempt.ts';
import type { ManualClaims } from './manual-claims.ts';

/** The result of a redelivery. `not_needed`: there is no need any more. `in_flight`: another attempt is under way; try again. */
export type RedeliveryResult = 'delivered' | 'failed' | 'not_needed' | 'in_flight';

/** The recovery that asks. */
export interface ForRecovery {
  readonly recoveryId: string;
  readonly webhookId: string;
}

/** Sends again for a recovery. A second call for the same recovery sends nothing, and returns the first result. */
export interface Redeliver {
  /**
   * One more attempt of a delivery that failed or was canceled.
   * @throws GatewayError `webhook_deleted`, `webhook_inactive`: nothing more can be sent
   */
  delivery(recovery: ForRecovery, deliveryId: string): Promise<RedeliveryResult>;
  /** Delivers an event that was missed, on a schedule that starts now. */
  missed(recovery: ForRecovery, eventId: string): Promise<RedeliveryResult>;
}

export interface RedeliverDeps {
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  readonly claims: ManualClaims;
  readonly attempt: MakeManualAttempt;
  /** Makes a scheduled attempt if it is due and free. */
  readonly attemptScheduled: (ref: AttemptRef) => Promise<void>;
  readonly retryDelays: readonly number[];
}

const recoverable = ['failed', 'canceled'] as const;

export function createRedeliver(deps: RedeliverDeps): Redeliver {
  const { claims, retryDelays } = deps;
  const deliveries = durableCollection(deps.deliveries);
  const events = durableCollection(deps.events);

  /** The result of this recovery's attempt, which is the delivery's last one. */
  function resultOf(delivery: DeliveryDocument | null, { recoveryId }: ForRecovery): RedeliveryResult {
    const last = delivery?.recoveredBy === recoveryId ? delivery.attempts.at(-1) : undefined;
    if (!last) return 'not_needed';
    return last.code === undefined ? 'delivered' : 'failed';
  }

  /** Stores the delivery unless it exists; it is due at once, by the database's clock. */
  async function store(delivery: DeliveryDocument): Promise<void> {
    const now = { dueAt: '$$NOW', claimableAt: '$$NOW', createdAt: '$$NOW' };
    await deliveries.updateOne({ _id: delivery._id }, insertOnly(delivery, now, 'eventId'), { upsert: true });
  }

  return {
    async delivery(recovery, deliveryId) {
      const claim = await claims.claimFor({ recoveryId: recovery.recoveryId, states: recoverable }, deliveryId);
      if (!claim) {
        const [delivery = null] = await findConfirmed(deliveries, { _id: deliveryId });
        const isSent = delivery?.recoveredBy === recovery.recoveryId && !delivery.manual;
        // another attempt was under way
        if (!isSent && recoverable.some((state) => state === delivery?.state)) return 'in_flight';
        return resultOf(delivery, recovery);
      }
      try {
        const { code } = await deps.attempt(claim);
        return code === undefined ? 'delivered' : 'failed';
      } catch (error) {
        if (error instanceof GatewayError && error.code === 'event_deleted') return 'not_needed';
        if (error instanceof GatewayError && error.code === 'attempt_in_flight') return 'in_flight';
        throw error;
      }
    },

    async missed(recovery, eventId) {
      const { webhookId, recoveryId } = recovery;
      const event = await findOneConfirmed(events, { _id: eventId }, { projection: { body: 0 } });
      if (!event) return 'not_needed';
      const delivery = firstDelivery(event, webhookId, attemptsAllowed(retryDelays, event.test));
      await store({ ...delivery, recoveredBy: recoveryId });
      // only after the delivery is stored, so that the event cannot be missed
      await events.updateOne(
        { _id: eventId, userId: event.userId, skipped: webhookId },
        { $pull: { skipped: webhookId }, $addToSet: { targets: webhookId }, $set: { targetsAdded: true } },
      );
      await deps.attemptScheduled({ deliveryId: delivery._id, webhookId, userId: event.userId, attempt: 1 });
      const [stored = null] = await findConfirmed(deliveries, { _id: delivery._id });
      const isWaiting = stored?.state === 'pending' && stored.attempts.length === 0;
      return isWaiting ? 'in_flight' : resultOf(stored, recovery);
    },
  };
}
