import type { AttemptResult, Claim, Claims } from './claims.ts';

/** An attempt that has been recorded. */
export interface RecordedAttempt {
  readonly webhookId: string;
  readonly deliveryId: string;
  /** When it ended, by the database's clock. */
  readonly at: Date;
  readonly durationMs: number;
  /** Absent when the receiver did not answer. */
  readonly status?: number;
  /** Why it failed; absent when it succeeded. */
  readonly code?: string;
}

/** Told of every attempt that has been recorded. */
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

/** The same claims, telling of every scheduled attempt. */
export function withAttemptListener(claims: Claims, onAttempt: OnAttempt): Claims {
  return {
    ...claims,
    async finish(claim, result, next) {
      const kept = await claims.finish(claim, result, next);
      if (kept) onAttempt(toRecordedAttempt(claim, result));
      return kept;
    },
  };
}
