/** How a gateway ends. */
export interface DrainOptions {
  /**
   * What calls under way may still take when the gateway closes, in milliseconds. It takes no new ones then (503
   * `shutting_down`). Streams that are not done by the end of it get an error event and no `[DONE]`. At most 3_600_000.
   * @default 30_000
   */
  readonly drainTimeout?: number;
}
