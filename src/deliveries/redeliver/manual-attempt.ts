import { GatewayError } from '../../errors.ts';
import { persist } from '../../mongo/writes/persist.ts';
import type { Logger } from '../../options/options.ts';
import type { ReceiverLookUp } from '../attempt/attempt.ts';
import { type OnAttempt, toRecordedAttempt } from '../attempt/attempt-listener.ts';
import type { AttemptResult, Claim } from '../attempt/claims.ts';
import type { Leases } from '../attempt/leases.ts';
import { toAttemptResult } from '../attempt/outcome.ts';
import { shownHeaders, signatureHeaders } from '../send/headers.ts';
import { NotSentError, type Send } from '../send/send.ts';
import { secretsInUse } from '../send/signing-secrets.ts';
import type { ManualClaims } from './manual-claims.ts';

export interface ManualAttemptDeps {
  readonly claims: ManualClaims;
  readonly leases: Leases;
  readonly send: Send;
  readonly forDelivery: ReceiverLookUp;
  /** The bytes of an event; `null` when it is gone, which is confirmed. */
  readonly body: (eventId: string) => Promise<Buffer | null>;
  readonly onAttempt: OnAttempt;
  /** Told of a delivery that the attempt has ended. */
  readonly onDelivered: (deliveryId: string) => void;
  readonly userAgent: string;
  readonly logger: Logger;
  /** Aborted when the gateway has closed. @default never */
  readonly closed?: AbortSignal;
}

/**
 * Makes the attempt that was claimed, and records it.
 * @throws GatewayError `webhook_deleted`, `webhook_inactive`, `event_deleted`, or `attempt_in_flight` where the claim was lost: nothing
 *   was sent
 */
export type MakeManualAttempt = (claim: Claim) => Promise<AttemptResult>;

/** The life of an attempt that somebody asked for: judge, sign, send, record. */
export function createMakeManualAttempt(deps: ManualAttemptDeps): MakeManualAttempt {
  const { claims, leases, userAgent } = deps;

  async function outgoingFor({ delivery, startedAt }: Claim) {
    const { webhookId, eventId, test } = delivery;
    const [receiver, body] = await Promise.all([
      deps.forDelivery(webhookId, ({ active }) => active),
      deps.body(eventId),
    ]);
    if (!receiver) {
      const reason = `The webhook ${webhookId} has been deleted, so there is nowhere to send this`;
      throw new GatewayError('webhook_deleted', reason);
    }
    if (!receiver.active) throw webhookInactive(webhookId);
    if (!body) {
      const reason = `The event ${eventId} is kept no longer, so there is nothing to send`;
      throw new GatewayError('event_deleted', reason);
    }
    const secrets = secretsInUse(receiver, startedAt);
    return {
      deliveryId: delivery._id,
      url: receiver.url,
      headers: shownHeaders({ eventId, startedAt, test, userAgent }),
      body,
      sign: (bytes: Buffer) => signatureHeaders({ eventId, startedAt, secrets }, bytes),
    };
  }

  /** What throws has sent nothing. */
  async function post(claim: Claim): Promise<AttemptResult> {
    try {
      const outgoing = await outgoingFor(claim);
      return toAttemptResult(await deps.send({ ...outgoing, maySend: () => leases.isSure(claim) }));
    } catch (error) {
      await claims.release(claim);
      throw error instanceof NotSentError ? attemptInFlight() : error;
    }
  }

  return async function makeManualAttempt(claim) {
    leases.hold(claim);
    try {
      const result = await post(claim);
      // what was sent is recorded however long the database takes
      if (await persist(() => claims.finish(claim, result), deps)) {
        deps.onAttempt(toRecordedAttempt(claim, result));
        if (result.code === undefined) deps.onDelivered(claim.delivery._id);
      }
      return result;
    } finally {
      leases.drop(claim);
    }
  };
}

/** Somebody else makes an attempt of the delivery, or may be. */
export function attemptInFlight(): GatewayError {
  const reason = 'An attempt of this delivery is in flight; try again when it has ended';
  return new GatewayError('attempt_in_flight', reason);
}

/** The webhook takes nothing at the moment, and its owner knows why. */
export function webhookInactive(id: string): GatewayError {
  return new GatewayError('webhook_inactive', `The webhook ${id} is not active; set active to true first`);
}
