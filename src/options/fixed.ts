/** What is the same in every gateway, each with why. Tests give their own. Durations are milliseconds. */
export const fixed = {
  /**
   * The shortest time between two exchanges of `limits.shared` counts. It only bounds the work: while no limit is near, exchanges are a second
   * apart or more. A longer one lets through more than the limit, a shorter one writes more than it tells.
   */
  syncInterval: 200,
  /** How long refused calls of one key are summed up in one `rate_limit.exceeded`; aligned to 1970, UTC. An event a key in five minutes is what an owner reads. */
  limitEventWindow: 300_000,
  /** How often a process renews its record, one small write. It counts as live for three times as long, so the operator's page is at most that late. */
  processInterval: 10_000,
  /** Usage records that wait in memory while the database is away: an hour of 28 calls a second. Beyond it the oldest are lost, which is logged. */
  usageBacklog: 100_000,
  /** Deliveries that a recovery of one webhook sends again in a second. What its receiver gets at once, `deliveries.concurrencyPerWebhook` limits. */
  recoverRate: 50,
  /** The longest message of a WebSocket, either way. Bytes. Providers take 15 MiB of audio in one event at most. */
  socketMessageBytes: 16 * 1024 ** 2,
  /** The largest body that is no model call: webhooks, keys and events, whose data has a limit of its own. Bytes. */
  otherBodyBytes: 256 * 1024,
  /**
   * Days that it is known whose a stored response or chat completion is: as long as OpenAI keeps them. With less, calls about what still
   * exists are 404.
   */
  storedRetentionDays: 30,
} as const;

export type Fixed = Readonly<Record<keyof typeof fixed, number>>;
