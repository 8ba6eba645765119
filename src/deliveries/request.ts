import type { SecretRotation } from '../webhooks/webhook.ts';
import type { Claim } from './claims.ts';
import type { CancelReason, DeliveryDocument } from './model.ts';
import type { DeliveryRequest } from './send.ts';
import { type RawBody, signBody, standardWebhookSignature } from './signature.ts';

/** A webhook with its opened secrets. */
export interface DeliveryTarget extends SigningSecrets {
  readonly url: string;
  readonly events: readonly string[];
  readonly active: boolean;
  /** Headers of the owner's own. @default none */
  readonly headers?: Readonly<Record<string, string>>;
  /** Requests a second, of all processes together. @default no limit */
  readonly rateLimit?: number;
}

/**
 * The webhook as it is now; `null` if it is confirmed to be gone. Unless `suffices` is true of the webhook that a usual read finds,
 * a confirmed read follows.
 */
export type TargetLookUp = (
  webhookId: string,
  suffices?: (target: DeliveryTarget) => boolean,
) => Promise<DeliveryTarget | null>;

/** The fields of a delivery that decide whether it is still sent. */
type Judged = Pick<DeliveryDocument, 'test' | 'type'>;

/** Why the event is no longer sent to this webhook; `null` if it is. */
export function reasonToCancel({ test, type }: Judged, target: DeliveryTarget): CancelReason | null {
  if (!target.active) return 'webhook_inactive';
  return test || target.events.includes(type) ? null : 'unsubscribed';
}

/**
 * The POST of an attempt. It is signed when it is sent.
 * @param maySend whether the claim's lease surely lasts; asked right before the first byte
 */
export function toDeliveryRequest(
  claim: Claim,
  target: DeliveryTarget,
  body: Buffer,
  userAgent: string,
  maySend: () => boolean,
): DeliveryRequest {
  const { startedAt } = claim;
  const { _id: deliveryId, eventId, webhookId, userId, type, test, attempt: number, traceparent } = claim.delivery;
  const isManual = claim.delivery.manual?.token === claim.token;
  const secrets = secretsInUse(target, startedAt);
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
    url: target.url,
    headers: shownHeaders({ eventId, startedAt, test, userAgent }),
    body,
    // the owner's headers are as secret as the signatures
    sign: (bytes) => ({ ...target.headers, ...signatureHeaders({ eventId, startedAt, secrets }, bytes) }),
    maySend,
  };
}

/** The input of the headers that may be shown. */
export interface ShownHeaderInput {
  readonly eventId: string;
  /** By the database's clock; receivers compare it with theirs. */
  readonly startedAt: Date;
  readonly test: boolean;
  readonly userAgent: string;
}

/** The input of the signatures of one POST, beside its body. */
export interface SignatureInput extends Pick<ShownHeaderInput, 'eventId' | 'startedAt'> {
  readonly secrets: SecretsInUse;
}

const seconds = (moment: Date) => Math.floor(moment.getTime() / 1000);

/** The headers of a delivery without its signatures. They can be derived from the attempt, so they are not stored with it. */
export function shownHeaders({ eventId, startedAt, test, userAgent }: ShownHeaderInput): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': userAgent,
    'webhook-id': eventId,
    'webhook-timestamp': String(seconds(startedAt)),
    ...(test && { 'x-service-test': 'true' }),
  };
}

/**
 * The signatures of a delivery: `x-service-signature`, and that of Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks, spec 1.0.0) for receivers that want replay protection.
 */
export function signatureHeaders(
  { eventId, startedAt, secrets }: SignatureInput,
  body: RawBody,
): Record<string, string> {
  const signatures = secrets.standard.map((secret) =>
    standardWebhookSignature(eventId, seconds(startedAt), body, secret),
  );
  return { 'x-service-signature': signBody(body, secrets.service), 'webhook-signature': signatures.join(' ') };
}

/** A webhook's secret, and the one it replaced. */
export interface SigningSecrets {
  readonly secret: string;
  /** The last rotation, whether it has ended or not. */
  readonly rotation?: SecretRotation | null;
}

/** The secrets that sign at one moment. */
export interface SecretsInUse {
  /** Signs `x-service-signature`, which has room for one signature. */
  readonly service: string;
  /** Sign `webhook-signature`, newest first. */
  readonly standard: readonly string[];
}

/**
 * The secrets that sign at `now`: both during the overlap of a rotation, afterwards only the new one.
 * @param now by the database's clock, as the end of the overlap is
 */
export function secretsInUse({ secret, rotation }: SigningSecrets, now: Date): SecretsInUse {
  if (!rotation || now >= rotation.endsAt) return { service: secret, standard: [secret] };
  const { previousSecret, serviceSignature } = rotation;
  return {
    service: serviceSignature === 'previous' ? previousSecret : secret,
    standard: [secret, previousSecret],
  };
}
