import { shownHeaders, signatureHeaders } from '../send/headers.ts';
import type { DeliveryRequest } from '../send/send.ts';
import { secretsInUse } from '../send/signing-secrets.ts';
import type { Claim } from './claims/claim.ts';
import type { LeaseRenewal } from './claims/lease-renewal.ts';
import type { DeliveryTarget } from './delivery-target.ts';

export interface DeliveryRequestDeps {
  readonly leases: Pick<LeaseRenewal, 'mayStillSend'>;
  readonly userAgent: string;
}

/** The POST of an attempt. It is signed when it is sent, and sent only while the claim's lease surely lasts. */
export function toDeliveryRequest(
  claim: Claim,
  receiver: DeliveryTarget,
  body: Buffer,
  deps: DeliveryRequestDeps,
): DeliveryRequest {
  const { startedAt } = claim;
  const { _id: deliveryId, eventId, webhookId, userId, type, test, attempt: number, traceparent } = claim.delivery;
  const isManual = claim.delivery.manual?.token === claim.token;
  const secrets = secretsInUse(receiver, startedAt);
  return {
    attempt: {
      deliveryId,
      eventId,
      webhookId,
      userId,
      type,
      number: isManual ? undefined : number,
      traceparent,
    },
    url: receiver.url,
    headers: shownHeaders({ eventId, startedAt, test, userAgent: deps.userAgent }),
    body,
    // the owner's headers are as secret as the signatures
    sign: (bytes) => ({ ...receiver.headers, ...signatureHeaders({ eventId, startedAt, secrets }, bytes) }),
    maySend: () => deps.leases.mayStillSend(claim),
  };
}
