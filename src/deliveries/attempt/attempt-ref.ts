/** A webhook and its account. */
export interface WebhookRef {
  readonly webhookId: string;
  readonly userId: string;
}

/** A reference to an attempt that may be due: the claim decides. */
export interface AttemptRef extends WebhookRef {
  readonly deliveryId: string;
  readonly attempt: number;
}

/** What tells one attempt from all others. */
export type AttemptKey = Pick<AttemptRef, 'deliveryId' | 'attempt'>;

/** Reads the bytes of an event; `null` if it is confirmed to be gone. */
export type ReadEventBody = (event: { readonly _id: string; readonly userId: string }) => Promise<Buffer | null>;

/** The reference that a job stores: jobs of earlier versions do not name the account. */
export type ScheduledRef = Omit<AttemptRef, 'userId'> & Partial<Pick<AttemptRef, 'userId'>>;

/** The delivery's present attempt. */
export function refOf({
  _id,
  webhookId,
  userId,
  attempt,
}: Omit<AttemptRef, 'deliveryId'> & { readonly _id: string }): AttemptRef {
  return { deliveryId: _id, webhookId, userId, attempt };
}
