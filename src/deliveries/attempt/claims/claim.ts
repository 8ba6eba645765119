import type { AttemptRecord, DeliveryDocument } from '../../model.ts';

/** The right to make one attempt, until the lease lapses. */
export interface Claim {
  readonly delivery: DeliveryDocument;
  /** With the delivery's id, the fencing token of every write about the attempt: a worker that lost its lease changes nothing. */
  readonly token: string;
  /** By the database's clock. */
  readonly startedAt: Date;
  /** When the lease ends unless renewed, by `performance.now()`; never later than by the database's clock. */
  readonly heldUntil: number;
}

/** What follows an attempt: the end of the delivery, or another attempt in `retryIn` milliseconds. */
export type Next = { readonly state: 'delivered' | 'failed' } | { readonly retryIn: number };

/** The result of an attempt; its number and start are in the claim. */
export type AttemptResult = Omit<AttemptRecord, 'number' | 'startedAt'>;

/** The attempt in its stored form. */
export function attemptRecordOf({ delivery, startedAt }: Claim, result: AttemptResult): AttemptRecord {
  return { number: delivery.attempt, startedAt, ...result };
}
