import type { AttemptRef } from './attempt-ref.ts';

/** A claimed attempt that is ready to be sent. */
export interface ReadyAttempt {
  /** Makes the request. Resolves when it has ended, with a function that records the result and needs no place. Never rejects. */
  send(): Promise<() => Promise<void>>;
  /** Leaves the attempt to whoever claims it next. Never rejects. */
  giveBack(): Promise<void>;
}

/** Claims an attempt and reads its webhook and body; `null` if there is nothing to send. Never rejects. */
export type Prepare = (ref: AttemptRef) => Promise<ReadyAttempt | null>;
