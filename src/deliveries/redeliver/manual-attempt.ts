import { GatewayError } from '../../errors.ts';
import { persist } from '../../mongo/writes/persist.ts';
import type { Logger } from '../../options/options.ts';
import { type AttemptListeners, toEndedAttempt } from '../attempt/attempt-listener.ts';
import { type ReadEventBody, refOf } from '../attempt/attempt-ref.ts';
import type { AttemptResult, Claim } from '../attempt/claims/claim.ts';
import type { LeaseRenewal } from '../attempt/claims/lease-renewal.ts';
import { toDeliveryRequest } from '../attempt/delivery-request.ts';
import type { TargetLookUp } from '../attempt/delivery-target.ts';
import { toAttemptResult } from '../attempt/outcome.ts';
import type { SendRates } from '../rate-limit/send-rates.ts';
import { type DeliveryRequest, NotSentError, type Send } from '../send/send.ts';
import type { ManualClaims } from './manual-claims.ts';

export interface ManualAttemptDeps extends Pick<AttemptListeners, 'onAttempt' | 'onEnded'> {
  readonly claims: ManualClaims;
  readonly leases: LeaseRenewal;
  readonly send: Send;
  readonly forDelivery: TargetLookUp;
  readonly sendRates: Pick<SendRates, 'wait'>;
  /** The bytes of an event; `null` if it is confirmed to be gone. */
  readonly body: ReadEventBody;
  /** Called when the attempt has ended a delivery. */
  readonly onDelivered: (deliveryId: string) => void;
  readonly userAgent: string;
  readonly logger: Logger;
  /** Aborted when the gateway has closed. @default never */
  readonly closed?: AbortSignal;
}

/**
 * Makes and records a claimed attempt.
 * @throws GatewayError `webhook_deleted`, `webhook_inactive`, `event_deleted`, or `attempt_in_flight` if the claim was lost; nothing
 *   was sent
 */
export type MakeManualAttempt = (claim: Claim) => Promise<AttemptResult>;

/** Judges, signs, sends and records an attempt that was asked for. */
export function createMakeManualAttempt(deps: ManualAttemptDeps): MakeManualAttempt {
  const { claims, leases } = deps;

  async function requestFor(claim: Claim): Promise<DeliveryRequest> {
    const { webhookId, eventId, userId } = claim.delivery;
    const [receiver, body] = await Promise.all([
      deps.forDelivery(webhookId, ({ active }) => active),
      deps.body({ _id: eventId, userId }),
    ]);
    if (!receiver) {
      const reason = `The webhook ${webhookId} has been deleted, so there is nowhere to send this`;
      throw new GatewayError('webhook_deleted', reason);
    }
    if (!receiver.active) throw webhookInactive(webhookId);
    if (!body) {
      const reason = `The event ${eventId} is no longer stored, so there is nothing to send`;
      throw new GatewayError('event_deleted', reason);
    }
    const { rateLimit } = receiver;
    if (rateLimit !== undefined) await deps.sendRates.wait({ ...refOf(claim.delivery), rateLimit });
    return toDeliveryRequest(claim, receiver, body, deps);
  }

  /** @throws only if nothing was sent */
  async function post(claim: Claim): Promise<AttemptResult> {
    try {
      return toAttemptResult(await deps.send(await requestFor(claim)));
    } catch (error) {
      await claims.release(claim);
      throw error instanceof NotSentError ? attemptInFlight() : error;
    }
  }

  function noteDelivered({ delivery }: Claim): void {
    deps.onDelivered(delivery._id);
    if (delivery.state !== 'delivered' && !delivery.test) deps.onEnded('delivered');
  }

  return async function makeManualAttempt(claim) {
    leases.hold(claim);
    try {
      const result = await post(claim);
      // retried for as long as the database is unavailable
      if (await persist(() => claims.finish(claim, result), deps)) {
        deps.onAttempt(toEndedAttempt(claim, result));
        if (result.code === undefined) noteDelivered(claim);
      }
      return result;
    } finally {
      leases.drop(claim);
    }
  };
}

/** Another attempt of the delivery is under way, or may be. */
export function attemptInFlight(): GatewayError {
  const reason = 'An attempt of this delivery is in flight; try again when it has ended';
  return new GatewayError('attempt_in_flight', reason);
}

export function webhookInactive(id: string): GatewayError {
  return new GatewayError('webhook_inactive', `The webhook ${id} is not active; set active to true first`);
}
