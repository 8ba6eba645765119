import type { CancelReason, DeliveryDocument } from '../model.ts';
import type { SigningSecrets } from '../send/signing-secrets.ts';

/** A webhook with its opened secrets. */
export interface Receiver extends SigningSecrets {
  readonly url: string;
  readonly events: readonly string[];
  readonly active: boolean;
}

/**
 * The webhook as it is now; `null` if it is confirmed to be gone. Unless `suffices` is true of the webhook that a usual read finds,
 * a confirmed read follows.
 */
export type ReceiverLookUp = (
  webhookId: string,
  suffices?: (receiver: Receiver) => boolean,
) => Promise<Receiver | null>;

/** The fields that decide whether an event is still sent to a webhook. */
type Judged = Pick<DeliveryDocument, 'test' | 'type'>;

/** Why the event is no longer sent to this webhook; `null` if it is. */
export function reasonToCancel({ test, type }: Judged, receiver: Receiver): CancelReason | null {
  if (!receiver.active) return 'webhook_inactive';
  return test || receiver.events.includes(type) ? null : 'unsubscribed';
}

/** The webhook that an attempt goes to. If nothing is sent to it any more, a confirmed read proves that, because it ends the delivery. */
export function readReceiver(forDelivery: ReceiverLookUp, webhookId: string, judged: Judged): Promise<Receiver | null> {
  return forDelivery(webhookId, (receiver) => reasonToCancel(judged, receiver) === null);
}
