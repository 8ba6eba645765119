import { GatewayError } from '../errors.ts';
import type { Logger } from '../options.ts';
import type { Receiver } from './attempt.ts';
import type { AttemptResult, Claim } from './claims.ts';
import { deliveryHeaders } from './headers.ts';
import type { Leases } from './leases.ts';
import type { ManualClaims } from './manual-claims.ts';
import { type OnAttempt, recorded } from './observed.ts';
import { failureOf, type SendResult } from './outcome.ts';
import { persist } from './persist.ts';
import type { Send } from './send.ts';
import { secretsInUse } from './signing-secrets.ts';

export interface ManualAttemptDeps {
  readonly claims: ManualClaims;
  readonly leases: Leases;
  readonly send: Send;
  /** The webhook as it is now; `null` when it is gone. */
  readonly forDelivery: (webhookId: string) => Promise<Receiver | null>;
  /** The bytes of an event; `null` when it is gone. */
  readonly body: (eventId: string) => Promise<Buffer | null>;
  readonly onAttempt: OnAttempt;
  readonly userAgent: string;
  readonly logger: Logger;
}

/**
 * Makes the attempt that was claimed, and records it.
 * @throws GatewayError `webhook_deleted`, `webhook_inactive` or `event_deleted`: nothing was sent
 */
export type MakeManualAttempt = (claim: Claim) => Promise<AttemptResult>;

function toResult(sent: SendResult): AttemptResult {
  const { durationMs, status, response } = sent;
  const code = failureOf(sent);
  return { durationMs, response, ...(status !== undefined && { status }), ...(code !== null && { code }) };
}

/** The life of an attempt that somebody asked for: judge, sign, send, record. */
export function createMakeManualAttempt(deps: ManualAttemptDeps): MakeManualAttempt {
  const { claims, leases, logger, userAgent } = deps;

  async function outgoingFor({ delivery, startedAt }: Claim) {
    const { webhookId, eventId, test } = delivery;
    const [receiver, body] = await Promise.all([deps.forDelivery(webhookId), deps.body(eventId)]);
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
      url: receiver.url,
      headers: deliveryHeaders({ eventId, body, secrets, startedAt, test, userAgent }),
      body,
    };
  }

  async function prepare(claim: Claim) {
    try {
      return await outgoingFor(claim);
    } catch (error) {
      await claims.release(claim);
      throw error;
    }
  }

  return async function makeManualAttempt(claim) {
    leases.hold(claim);
    try {
      const result = toResult(await deps.send(await prepare(claim)));
      // what was sent is recorded however long the database takes
      if (await persist(() => claims.finish(claim, result), logger)) deps.onAttempt(recorded(claim, result));
      return result;
    } finally {
      leases.drop(claim);
    }
  };
}

/** The webhook takes nothing at the moment, and its owner knows why. */
export function webhookInactive(id: string): GatewayError {
  return new GatewayError('webhook_inactive', `The webhook ${id} is not active; set active to true first`);
}
