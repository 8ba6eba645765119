import type { CancelReason, DeliveryDocument } from '../model.ts';
import type { SigningSecrets } from '../send/signing-secrets.ts';

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
  suffices?: (receiver: DeliveryTarget) => boolean,
) => Promise<DeliveryTarget | null>;

/** The fields that decide whether an event is still sent to a webhook. */
type Judged = Pick<DeliveryDocument, 'test' | 'type'>;

/** Why the event is no longer sent to this webhook; `null` if it is. */
export function reasonToCancel({ test, type }: Judged, receiver: DeliveryTarget): CancelReason | null {
  if (!receiver.active) return 'webhook_inactive';
  return test || receiver.events.includes(type) ? null : 'unsubscribed';
}

/** The webhook that an attempt goes to. If nothing is sent to it any more, a confirmed read proves that, because it ends the delivery. */
export function readTarget(
  forDelivery: TargetLookUp,
  webhookId: string,
  judged: Judged,
): Promise<DeliveryTarget | null> {
  return forDelivery(webhookId, (receiver) => reasonToCancel(judged, receiver) === null);
}
