import type { StoredEvent } from '../../events/store/stored-event.ts';
import { derivedId } from '../../ids.ts';
import type { DeliveryDocument } from '../model.ts';

/** The delivery of an event to one of its webhooks, due at once. Making it again gives the same delivery. */
export function firstDelivery(event: StoredEvent, webhookId: string, maxAttempts: number): DeliveryDocument {
  const { _id: eventId, userId, type, test, traceparent, created, acceptedAt, deliveryKey } = event;
  return {
    _id: derivedId('dlv', created.getTime(), deliveryKey, eventId, webhookId),
    eventId,
    webhookId,
    userId,
    type,
    test,
    ...(traceparent !== undefined && { traceparent }),
    state: 'pending',
    attempt: 1,
    maxAttempts,
    starts: 0,
    dueAt: acceptedAt,
    claimableAt: acceptedAt,
    lease: null,
    attempts: [],
    createdAt: acceptedAt,
  };
}
