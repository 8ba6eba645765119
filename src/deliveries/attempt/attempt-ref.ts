/** A webhook, and the account that it counts for. */
export interface WebhookRef {
  readonly webhookId: string;
  readonly userId: string;
}

/** A reference to an attempt. Only the claim decides whether it is really due. */
export interface AttemptRef extends WebhookRef {
  readonly deliveryId: string;
  readonly attempt: number;
}

/** The same as a job has stored it: jobs of earlier versions do not name the account. */
export type ScheduledRef = Omit<AttemptRef, 'userId'> & Partial<Pick<AttemptRef, 'userId'>>;
