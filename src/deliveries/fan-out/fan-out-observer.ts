/** Learns how large fan-outs are, and how much is written together. */
export interface FanOutObserver {
  /** The fan-out of an event to so many webhooks has begun in this process. */
  fannedOut(deliveries: number): void;
  /** So many deliveries were inserted by one write. */
  inserted(deliveries: number): void;
}
