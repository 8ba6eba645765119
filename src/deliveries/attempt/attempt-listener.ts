import type { RecordedAttempt } from '../../webhooks/health/recorded-attempt.ts';
import type { AttemptResult, Claim } from './claim.ts';
import type { Claims } from './claims.ts';

/** Called after each recorded attempt. */
export type OnAttempt = (attempt: RecordedAttempt) => void;

export function toRecordedAttempt(
  { delivery, startedAt }: Claim,
  { durationMs, status, code }: AttemptResult,
): RecordedAttempt {
  return {
    webhookId: delivery.webhookId,
    deliveryId: delivery._id,
    at: new Date(startedAt.getTime() + durationMs),
    durationMs,
    ...(status !== undefined && { status }),
    ...(code !== undefined && { code }),
  };
}

/** The same claims, which also report each scheduled attempt that they record. */
export function withAttemptListener(claims: Claims, onAttempt: OnAttempt): Claims {
  return {
    ...claims,
    async finish(claim, result, next) {
      const isRecorded = await claims.finish(claim, result, next);
      if (isRecorded) onAttempt(toRecordedAttempt(claim, result));
      return isRecorded;
    },
  };
}
