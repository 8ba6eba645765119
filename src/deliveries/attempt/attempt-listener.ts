import type { RecordedAttempt } from '../../webhooks/health/recorded-attempt.ts';
import type { AttemptResult, Claim } from './claims/claim.ts';
import type { Claims } from './claims/claims.ts';

/** A recorded attempt, and what it belongs to. */
export interface EndedAttempt extends RecordedAttempt {
  readonly eventId: string;
  readonly userId: string;
  /** Absent if the attempt was asked for. */
  readonly number?: number;
}

/** Called after each recorded attempt. */
export type OnAttempt = (attempt: EndedAttempt) => void;

/** A delivery whose last attempt on schedule has failed. */
export interface FailedDelivery {
  /** `dlv_…` */
  readonly deliveryId: string;
  /** `evt_…` */
  readonly eventId: string;
  /** The type of the event. */
  readonly eventType: string;
  /** `wh_…` */
  readonly webhookId: string;
  readonly userId: string;
  /** How many attempts there were. */
  readonly attempts: number;
  /** Why the last one failed: `http_500`, `timeout`, … */
  readonly code: string;
  /** The receiver's last status; absent if it did not answer. */
  readonly status?: number;
}

/** Called when a delivery has failed, by the process whose write has ended it. */
export type OnFailed = (delivery: FailedDelivery) => void;

function toFailedDelivery({ delivery }: Claim, { code = 'unknown', status }: AttemptResult): FailedDelivery {
  return {
    deliveryId: delivery._id,
    eventId: delivery.eventId,
    eventType: delivery.type,
    webhookId: delivery.webhookId,
    userId: delivery.userId,
    attempts: delivery.attempt,
    code,
    ...(status !== undefined && { status }),
  };
}

export function toEndedAttempt(
  { delivery, startedAt }: Claim,
  { durationMs, status, code }: AttemptResult,
): EndedAttempt {
  return {
    webhookId: delivery.webhookId,
    deliveryId: delivery._id,
    eventId: delivery.eventId,
    userId: delivery.userId,
    at: new Date(startedAt.getTime() + durationMs),
    durationMs,
    ...(status !== undefined && { status }),
    ...(code !== undefined && { code }),
  };
}

/**
 * Called when a delivery has ended, by the process whose write has ended it; not for test events. A resend that succeeds ends a
 * failed or canceled one again.
 * @param code why it failed or was canceled
 */
export type OnEnded = (state: 'delivered' | 'failed' | 'canceled', code?: string) => void;

/** Who is told of attempts. */
export interface AttemptListeners {
  readonly onAttempt: OnAttempt;
  readonly onFailed: OnFailed;
  readonly onEnded: OnEnded;
}

/** The same claims, which also report each scheduled attempt that they record, and each delivery that ends. */
export function withAttemptListeners(claims: Claims, { onAttempt, onFailed, onEnded }: AttemptListeners): Claims {
  return {
    ...claims,
    async finish(claim, result, next) {
      const isRecorded = await claims.finish(claim, result, next);
      if (!isRecorded) return false;
      const late = claim.startedAt.getTime() - claim.delivery.dueAt.getTime();
      onAttempt({ ...toEndedAttempt(claim, result), number: claim.delivery.attempt, late });
      if ('state' in next && !claim.delivery.test) {
        onEnded(next.state, result.code);
        if (next.state === 'failed') onFailed(toFailedDelivery(claim, result));
      }
      return true;
    },
    async cancel(claim, reason) {
      const isCanceled = await claims.cancel(claim, reason);
      if (isCanceled && !claim.delivery.test) onEnded('canceled', reason);
      return isCanceled;
    },
  };
}
