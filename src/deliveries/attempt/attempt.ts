import { persist } from '../../mongo/writes/persist.ts';
import type { Logger } from '../../options/options.ts';
import type { CancelReason, DeliveryDocument } from '../model.ts';
import { shownHeaders, signatureHeaders } from '../send/headers.ts';
import { NotSentError, type Send } from '../send/send.ts';
import { type SigningSecrets, secretsInUse } from '../send/signing-secrets.ts';
import type { Prepare } from '../worker/dispatcher.ts';
import type { ReadyAttempt } from '../worker/webhook-queue.ts';
import type { AttemptRef } from './attempt-ref.ts';
import type { AttemptResult, Claim, Claims, Next } from './claims.ts';
import type { Leases } from './leases.ts';
import { toAttemptResult } from './outcome.ts';
import { delayAfter } from './schedule.ts';

/** How often one attempt may be started without being finished before it counts as failed: a poison event must not crash workers for ever. */
export const startLimit = 4;

/** How long an attempt waits after the gateway itself could not make it: the database or a secret could not be read. */
const retryOwnFailureIn = 1_000;

/** A webhook as deliveries see it, its secrets opened. */
export interface Receiver extends SigningSecrets {
  readonly url: string;
  readonly events: readonly string[];
  readonly active: boolean;
}

/**
 * The webhook as it is now; `null` when it is gone, which is confirmed. What a usual read finds is read again, confirmed,
 * unless `suffices` is true of it.
 */
export type ReceiverLookUp = (
  webhookId: string,
  suffices?: (receiver: Receiver) => boolean,
) => Promise<Receiver | null>;

export interface AttemptDeps {
  readonly claims: Claims;
  readonly leases: Leases;
  readonly send: Send;
  readonly forDelivery: ReceiverLookUp;
  /** The bytes of an event; `null` when it is gone, which is confirmed. */
  readonly body: (eventId: string) => Promise<Buffer | null>;
  readonly retryDelays: readonly number[];
  readonly userAgent: string;
  /** Schedules the attempt in so many milliseconds. */
  readonly schedule: (ref: AttemptRef, wait: number) => void;
  /** The attempt was given back and waits for a place again. */
  readonly scheduleWaiting: (ref: AttemptRef) => void;
  readonly logger: Logger;
  /** Aborted when the gateway has closed: what is not recorded by then is left to a later claim. @default never */
  readonly closed?: AbortSignal;
}

/** A first attempt, which is made before its delivery is stored. */
export interface FirstAttempt {
  readonly claim: Claim;
  /** The event's bytes. */
  readonly body: Buffer;
  /** Whom it goes to, where that is being read. @default it is read */
  readonly receiver?: Promise<Receiver | null>;
}

/** Attempts on their way to being sent. Nothing here rejects: what goes wrong is left to a later claim. */
export interface Attempts {
  /** Makes it if it is due and free, beside the shares of the webhooks. */
  make(ref: AttemptRef): Promise<void>;
  /** Claims the attempt if it is due and free. */
  readonly prepare: Prepare;
  /** The same for one that is claimed by the lease of its event. */
  prepareFirst(first: FirstAttempt): Promise<ReadyAttempt | null>;
  /** Makes it, beside the shares of the webhooks. */
  makeFirst(first: FirstAttempt): Promise<void>;
}

/** What tells whether an event is still sent to a webhook. */
type Judged = Pick<DeliveryDocument, 'test' | 'type'>;

function reasonToCancel({ test, type }: Judged, receiver: Receiver): CancelReason | null {
  if (!receiver.active) return 'webhook_inactive';
  return test || receiver.events.includes(type) ? null : 'unsubscribed';
}

/** Whom an attempt goes to. Where nothing is to be sent to it any more, that is confirmed: it ends the delivery. */
export function readReceiver(forDelivery: ReceiverLookUp, webhookId: string, judged: Judged): Promise<Receiver | null> {
  return forDelivery(webhookId, (receiver) => reasonToCancel(judged, receiver) === null);
}

function refOf({ _id, webhookId, userId, attempt }: DeliveryDocument): AttemptRef {
  return { deliveryId: _id, webhookId, userId, attempt };
}

/** The life of one attempt: claim, judge, sign, send, record. */
export function createAttempts(deps: AttemptDeps): Attempts {
  const { claims, leases, logger, schedule } = deps;

  function following({ attempt, maxAttempts }: DeliveryDocument, failed: boolean): Next {
    if (!failed) return { state: 'delivered' };
    return attempt < maxAttempts ? { retryIn: delayAfter(attempt, deps.retryDelays) } : { state: 'failed' };
  }

  /** What was sent is recorded however long the database takes: an attempt forgotten is an attempt made twice. */
  async function record(claim: Claim, result: AttemptResult): Promise<void> {
    const { delivery } = claim;
    const next = following(delivery, result.code !== undefined);
    const kept = await persist(() => claims.finish(claim, result, next), deps);
    if (kept && 'retryIn' in next) schedule({ ...refOf(delivery), attempt: delivery.attempt + 1 }, next.retryIn);
  }

  /** The gateway itself could not make the attempt: it is neither counted nor lost. */
  async function postpone(claim: Claim, reason: unknown): Promise<void> {
    const ref = refOf(claim.delivery);
    const level = reason instanceof NotSentError ? 'warn' : 'error';
    logger[level]('an attempt could not be made', { ...ref, reason: String(reason) });
    await claims.release(claim, retryOwnFailureIn);
    schedule(ref, retryOwnFailureIn);
  }

  /** Does the last thing with a claim. When that fails too, the lease lapses, and a sweep finds the attempt. */
  async function end(claim: Claim, last: () => Promise<unknown>): Promise<null> {
    try {
      await last();
    } catch (error) {
      logger.warn('an attempt was left to the next sweep', { ...refOf(claim.delivery), reason: String(error) });
    } finally {
      leases.drop(claim);
      claims.forget(claim);
    }
    return null;
  }

  const receiverOf = ({ delivery }: Claim) => readReceiver(deps.forDelivery, delivery.webhookId, delivery);

  function ready(claim: Claim, receiver: Receiver, body: Buffer): ReadyAttempt {
    const { _id: deliveryId, eventId, test } = claim.delivery;
    const { startedAt } = claim;

    async function post(): Promise<AttemptResult> {
      const secrets = secretsInUse(receiver, startedAt);
      const headers = shownHeaders({ eventId, startedAt, test, userAgent: deps.userAgent });
      const sign = (bytes: Buffer) => signatureHeaders({ eventId, startedAt, secrets }, bytes);
      const maySend = () => leases.isSure(claim);
      return toAttemptResult(await deps.send({ deliveryId, url: receiver.url, headers, body, sign, maySend }));
    }

    return {
      async send() {
        const last = await post().then(
          (result) => () => record(claim, result),
          (error) => () => postpone(claim, error),
        );
        return () => end(claim, last).then(() => {});
      },
      async giveBack() {
        await end(claim, () => claims.release(claim, 0));
        deps.scheduleWaiting(refOf(claim.delivery));
      },
    };
  }

  async function judged(claim: Claim, reading: Promise<[Receiver | null, Buffer | null]>) {
    const { delivery } = claim;
    // awaited below, if at all
    reading.catch(() => {});
    if (delivery.starts > startLimit) {
      const crashed = { code: 'worker_crashed', durationMs: 0, response: '' };
      return end(claim, () => record(claim, crashed));
    }
    try {
      const [receiver, body] = await reading;
      if (!receiver) return end(claim, () => claims.cancel(claim, 'webhook_deleted'));
      if (!body) return end(claim, () => claims.cancel(claim, 'event_deleted'));
      const reason = reasonToCancel(delivery, receiver);
      if (reason) return end(claim, () => claims.cancel(claim, reason));
      return ready(claim, receiver, body);
    } catch (error) {
      return end(claim, () => postpone(claim, error));
    }
  }

  /** `null` when there is nothing to be sent. */
  async function claimed(deliveryId: string, attempt: number): Promise<ReadyAttempt | null | 'unclaimed'> {
    const claim = await claims.claim(deliveryId, attempt);
    if (!claim) return 'unclaimed';
    leases.hold(claim);
    return judged(claim, Promise.all([receiverOf(claim), deps.body(claim.delivery.eventId)]));
  }

  async function prepare(ref: AttemptRef): Promise<ReadyAttempt | null> {
    try {
      const made = await claimed(ref.deliveryId, ref.attempt);
      if (made !== 'unclaimed') return made;
      // the job ran early because this process's clock is ahead
      const wait = await claims.dueIn(ref.deliveryId, ref.attempt);
      if (wait !== null) schedule(ref, wait);
    } catch (error) {
      logger.warn('an attempt was left to the next sweep', { ...ref, reason: String(error) });
    }
    return null;
  }

  /** Whom a first attempt goes to. What was read before the event was there ends no delivery. */
  async function firstReceiver({ claim, receiver }: FirstAttempt): Promise<Receiver | null> {
    const read = await receiver;
    return read && reasonToCancel(claim.delivery, read) === null ? read : receiverOf(claim);
  }

  async function prepareFirst(first: FirstAttempt) {
    leases.track(first.claim);
    return judged(first.claim, Promise.all([firstReceiver(first), first.body]));
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
