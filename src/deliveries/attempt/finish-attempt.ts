import { persist } from '../../mongo/writes/persist.ts';
import type { Logger } from '../../options/options.ts';
import type { CancelReason } from '../model.ts';
import { NotSentError } from '../send/send.ts';
import { type AttemptRef, refOf } from './attempt-ref.ts';
import type { AttemptResult, Claim, Next } from './claims/claim.ts';
import type { Claims } from './claims/claims.ts';
import type { LeaseRenewal } from './claims/lease-renewal.ts';
import { delayAfter, honoringRetryAfter } from './retry-delay.ts';

/** How long an attempt waits after the gateway could not make it, because it could not read the database or a secret. Milliseconds. */
const retryOwnFailureIn = 1_000;

export interface AttemptFinisherDeps {
  readonly claims: Claims;
  readonly leases: Pick<LeaseRenewal, 'drop'>;
  readonly retryDelays: readonly number[];
  /** Whether a receiver's `Retry-After` can postpone the next attempt. @default false */
  readonly honorRetryAfter?: boolean;
  /** Schedules an attempt in so many milliseconds. */
  readonly schedule: (ref: AttemptRef, wait: number) => void;
  readonly logger: Logger;
  /** Aborted when the gateway has closed: what is not recorded by then is left to a later claim. @default never */
  readonly closed?: AbortSignal;
}

/** How a claimed attempt ends. Nothing here rejects: if the write fails, the lease lapses and a sweep finds the attempt. */
export interface AttemptFinisher {
  /** Records the result and schedules the next attempt if there is one. */
  record(claim: Claim, result: AttemptResult): Promise<null>;
  /** The gateway could not make the attempt: it does not count, and is made later. */
  postpone(claim: Claim, reason: unknown): Promise<null>;
  /** The webhook's rate limit holds it back: it does not count, and may be claimed again in `wait` ms. */
  delay(claim: Claim, wait: number): Promise<null>;
  cancel(claim: Claim, reason: CancelReason): Promise<null>;
  /** Leaves the attempt to the next process that claims it. */
  giveBack(claim: Claim): Promise<null>;
}

export function createAttemptFinisher(deps: AttemptFinisherDeps): AttemptFinisher {
  const { claims, leases, retryDelays, honorRetryAfter = false, schedule, logger } = deps;

  function nextAfter({ delivery, startedAt }: Claim, { code, retryAfter, durationMs }: AttemptResult): Next {
    if (code === undefined) return { state: 'delivered' };
    if (delivery.attempt >= delivery.maxAttempts) return { state: 'failed' };
    const delay = delayAfter(delivery.attempt, retryDelays);
    if (!honorRetryAfter) return { retryIn: delay };
    return { retryIn: honoringRetryAfter(delay, { retryAfter, endedAt: startedAt.getTime() + durationMs }) };
  }

  /** Retries for as long as the database is unavailable: an attempt that is not recorded is made again. */
  async function record(claim: Claim, result: AttemptResult): Promise<void> {
    const { delivery } = claim;
    const next = nextAfter(claim, result);
    const isRecorded = await persist(() => claims.finish(claim, result, next), deps);
    if (isRecorded && 'retryIn' in next) {
      schedule({ ...refOf(delivery), attempt: delivery.attempt + 1 }, next.retryIn);
    }
  }

  async function postpone(claim: Claim, reason: unknown): Promise<void> {
    const ref = refOf(claim.delivery);
    const level = reason instanceof NotSentError ? 'warn' : 'error';
    logger[level]('an attempt could not be made', { ...ref, reason: String(reason) });
    await claims.release(claim, retryOwnFailureIn);
    schedule(ref, retryOwnFailureIn);
  }

  async function end(claim: Claim, write: () => Promise<unknown>): Promise<null> {
    try {
      await write();
    } catch (error) {
      logger.warn('an attempt was left to the next sweep', { ...refOf(claim.delivery), reason: String(error) });
    } finally {
      leases.drop(claim);
      claims.forget(claim);
    }
    return null;
  }

  return {
    record: (claim, result) => end(claim, () => record(claim, result)),
    postpone: (claim, reason) => end(claim, () => postpone(claim, reason)),
    delay: (claim, wait) => end(claim, () => claims.release(claim, wait)),
    cancel: (claim, reason) => end(claim, () => claims.cancel(claim, reason)),
    giveBack: (claim) => end(claim, () => claims.release(claim, 0)),
  };
}
