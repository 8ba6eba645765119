import type { Logger } from '../options.ts';
import type { AttemptResult, Claim, Claims, Next } from './claims.ts';
import { deliveryHeaders } from './headers.ts';
import type { Leases } from './leases.ts';
import type { CancelReason, DeliveryDocument } from './model.ts';
import { failureOf, type SendResult } from './outcome.ts';
import { persist } from './persist.ts';
import { delayAfter } from './schedule.ts';
import type { Send } from './send.ts';
import { type SigningSecrets, secretsInUse } from './signing-secrets.ts';

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

export interface AttemptDeps {
  readonly claims: Claims;
  readonly leases: Leases;
  readonly send: Send;
  /** The webhook as it is now; `null` when it is gone. */
  readonly forDelivery: (webhookId: string) => Promise<Receiver | null>;
  /** The bytes of an event; `null` when it is gone. */
  readonly body: (eventId: string) => Promise<Buffer | null>;
  /** Milliseconds from asking for the claim within which the request must be on its way: later, another worker may have it. */
  readonly sendWithin: number;
  readonly retryDelays: readonly number[];
  readonly userAgent: string;
  readonly logger: Logger;
}

/** What the bell for the next attempt needs. */
export interface NextAttempt {
  readonly attempt: number;
  readonly retryIn: number;
}

/** Makes one attempt if it is due and free: says when the next one is due, that the delivery has ended, or that it could not be claimed. */
export type MakeAttempt = (deliveryId: string, attempt: number) => Promise<NextAttempt | 'ended' | 'unclaimed'>;

function reasonToCancel({ test, type }: DeliveryDocument, receiver: Receiver): CancelReason | null {
  if (!receiver.active) return 'webhook_inactive';
  return test || receiver.events.includes(type) ? null : 'unsubscribed';
}

function toResult(sent: SendResult): AttemptResult {
  const { durationMs, status, response } = sent;
  const code = failureOf(sent);
  return { durationMs, response, ...(status !== undefined && { status }), ...(code !== null && { code }) };
}

/** The life of one attempt: claim, judge, sign, send, record. */
export function createMakeAttempt(deps: AttemptDeps): MakeAttempt {
  const { claims, leases, logger } = deps;

  function following({ attempt, maxAttempts }: DeliveryDocument, failed: boolean): Next {
    if (!failed) return { state: 'delivered' };
    return attempt < maxAttempts ? { retryIn: delayAfter(attempt, deps.retryDelays) } : { state: 'failed' };
  }

  /** What was sent is recorded however long the database takes: an attempt forgotten is an attempt made twice. */
  async function record(claim: Claim, result: AttemptResult): Promise<NextAttempt | 'ended'> {
    const { attempt } = claim.delivery;
    const next = following(claim.delivery, result.code !== undefined);
    const kept = await persist(() => claims.finish(claim, result, next), logger);
    return kept && 'retryIn' in next ? { attempt: attempt + 1, retryIn: next.retryIn } : 'ended';
  }

  async function cancel(claim: Claim, reason: CancelReason): Promise<'ended'> {
    await claims.cancel(claim, reason);
    return 'ended';
  }

  async function deliver(claim: Claim, sendBy: number): Promise<NextAttempt | 'ended'> {
    const { delivery, startedAt } = claim;
    if (delivery.starts > startLimit) return record(claim, { code: 'worker_crashed', durationMs: 0, response: '' });

    const { eventId, webhookId, test } = delivery;
    const [receiver, body] = await Promise.all([deps.forDelivery(webhookId), deps.body(eventId)]);
    if (!receiver) return cancel(claim, 'webhook_deleted');
    if (!body) return cancel(claim, 'event_deleted');
    const reason = reasonToCancel(delivery, receiver);
    if (reason) return cancel(claim, reason);

    const { userAgent } = deps;
    // the database stalled: the lease may have lapsed, and the attempt been made elsewhere
    if (performance.now() > sendBy) throw new Error('claiming took too long to be sure of the lease');
    const secrets = secretsInUse(receiver, startedAt);
    const headers = deliveryHeaders({ eventId, body, secrets, startedAt, test, userAgent });
    return record(claim, toResult(await deps.send({ url: receiver.url, headers, body })));
  }

  return async function makeAttempt(deliveryId, attempt) {
    const sendBy = performance.now() + deps.sendWithin;
    const claim = await claims.claim(deliveryId, attempt);
    if (!claim) return 'unclaimed';
    leases.hold(claim);
    try {
      return await deliver(claim, sendBy);
    } catch (error) {
      logger.error('an attempt could not be made', { deliveryId, attempt, reason: String(error) });
      await claims.release(claim, retryOwnFailureIn);
      return { attempt, retryIn: retryOwnFailureIn };
    } finally {
      leases.drop(claim);
    }
  };
}
