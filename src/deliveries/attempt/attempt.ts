import type { SendRates } from '../rate-limit/send-rates.ts';
import { type AttemptRef, type ReadEventBody, refOf } from './attempt-ref.ts';
import type { Claim } from './claims/claim.ts';
import type { LeaseRenewal } from './claims/lease-renewal.ts';
import { type DeliveryTarget, readTarget, reasonToCancel, type TargetLookUp } from './delivery-target.ts';
import { type AttemptFinisherDeps, createAttemptFinisher } from './finish-attempt.ts';
import { createReadyAttempt, type Prepare, type ReadyAttempt, type ReadyAttemptDeps } from './ready-attempt.ts';

/** After so many starts without an end an attempt counts as failed: an event that crashes workers must stop doing so. */
export const startLimit = 4;

export interface AttemptDeps extends AttemptFinisherDeps, Omit<ReadyAttemptDeps, 'finisher'> {
  readonly leases: LeaseRenewal;
  readonly forDelivery: TargetLookUp;
  readonly sendRates: SendRates;
  /** The bytes of an event; `null` if it is confirmed to be gone. */
  readonly body: ReadEventBody;
}

/** A first attempt that is made before its delivery is stored. */
export interface FirstAttempt {
  readonly claim: Claim;
  /** The event's bytes. */
  readonly body: Buffer;
  /** The receiver, if it is being read already. @default it is read */
  readonly receiver?: Promise<DeliveryTarget | null>;
}

/** Makes attempts. Nothing here rejects: if something goes wrong, the attempt is left to a later claim. */
export interface Attempts {
  /** Makes the attempt if it is due and free, outside the dispatcher's limits. */
  make(ref: AttemptRef): Promise<void>;
  /** Claims the attempt if it is due and free. */
  readonly prepare: Prepare;
  /** The same for a first attempt, which the lease of its event claims. */
  prepareFirst(first: FirstAttempt): Promise<ReadyAttempt | null>;
  /** Makes a first attempt, outside the dispatcher's limits. */
  makeFirst(first: FirstAttempt): Promise<void>;
}

/** Claims, judges, signs, sends and records attempts. */
export function createAttempts(deps: AttemptDeps): Attempts {
  const { claims, leases, logger, schedule } = deps;
  const finisher = createAttemptFinisher(deps);
  const readyAttempt = createReadyAttempt({ ...deps, finisher });
  const receiverOf = ({ delivery }: Claim) => readTarget(deps.forDelivery, delivery.webhookId, delivery);

  async function makeReady(claim: Claim, reading: Promise<[DeliveryTarget | null, Buffer | null]>) {
    const { delivery } = claim;
    // awaited below, unless the attempt ends before
    reading.catch(() => {});
    if (delivery.starts > startLimit) {
      return finisher.record(claim, { code: 'worker_crashed', durationMs: 0, response: '' });
    }
    try {
      const [receiver, body] = await reading;
      if (!receiver) return finisher.cancel(claim, 'webhook_deleted');
      if (!body) return finisher.cancel(claim, 'event_deleted');
      const reason = reasonToCancel(delivery, receiver);
      if (reason) return finisher.cancel(claim, reason);
      if (receiver.rateLimit !== undefined) {
        const wait = await deps.sendRates.admit({ ...refOf(delivery), rateLimit: receiver.rateLimit });
        if (wait > 0) return finisher.delay(claim, wait);
      }
      return readyAttempt(claim, receiver, body);
    } catch (error) {
      return finisher.postpone(claim, error);
    }
  }

  /** `null` when there is nothing to send. */
  async function claimAndRead({ deliveryId, attempt }: AttemptRef): Promise<ReadyAttempt | null | 'unclaimed'> {
    const claim = await claims.claim(deliveryId, attempt);
    if (!claim) return 'unclaimed';
    leases.hold(claim);
    const { eventId, userId } = claim.delivery;
    return makeReady(claim, Promise.all([receiverOf(claim), deps.body({ _id: eventId, userId })]));
  }

  async function prepare(ref: AttemptRef): Promise<ReadyAttempt | null> {
    try {
      const attempt = await claimAndRead(ref);
      if (attempt !== 'unclaimed') return attempt;
      // the job ran early because this process's clock is ahead
      const wait = await claims.dueIn(ref.deliveryId, ref.attempt);
      if (wait !== null) schedule(ref, wait);
    } catch (error) {
      logger.warn('an attempt was left to the next sweep', { ...ref, reason: String(error) });
    }
    return null;
  }

  /** The receiver of a first attempt. If it was read before the event was stored, it is read again before it ends a delivery. */
  async function firstReceiver({ claim, receiver }: FirstAttempt): Promise<DeliveryTarget | null> {
    const read = await receiver;
    return read && reasonToCancel(claim.delivery, read) === null ? read : receiverOf(claim);
  }

  async function prepareFirst(first: FirstAttempt) {
    leases.track(first.claim);
    return makeReady(first.claim, Promise.all([firstReceiver(first), first.body]));
  }

  async function sendNow(preparing: Promise<ReadyAttempt | null>): Promise<void> {
    const ready = await preparing;
    const finish = await ready?.send();
    await finish?.();
  }

  return {
    prepare,
    prepareFirst,
    make: (ref) => sendNow(prepare(ref)),
    makeFirst: (first) => sendNow(prepareFirst(first)),
  };
}
