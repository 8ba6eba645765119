/** A recorded attempt. */
export interface RecordedAttempt {
  readonly webhookId: string;
  readonly deliveryId: string;
  /** When it ended, by the database's clock. */
  readonly at: Date;
  readonly durationMs: number;
  /** Absent if the receiver did not answer. */
  readonly status?: number;
  /** Why it failed; absent if it succeeded. */
  readonly code?: string;
  /** How long after the time when it was due it began, by the database's clock; absent if it was asked for. Milliseconds. */
  readonly late?: number;
}
