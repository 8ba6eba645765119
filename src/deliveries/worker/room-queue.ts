import type { WebhookRef } from '../attempt/attempt-ref.ts';

export interface RoomQueueDeps {
  /** How many may wait in all. */
  readonly limit: number;
  /** Milliseconds. */
  readonly maxWait: number;
  /** Whether a first attempt of this webhook may wait: there will be room for it when another one of the webhook ends. */
  readonly mayWait: (webhook: WebhookRef) => boolean;
}

/** First attempts that wait in memory until there is room for them. Their deliveries are then stored once, with their outcome. */
export interface RoomQueue {
  /** How many wait. */
  readonly size: number;
  /** Whether attempts of this webhook wait here: they come before any other of it. */
  has(webhookId: string): boolean;
  /**
   * Has `begin` called as soon as there may be room, and again until it has begun; resolves then, or when that has taken too
   * long. `null` where the attempt may not wait.
   * @param begin whether the attempt has begun
   */
  wait(webhook: WebhookRef, begin: () => boolean): Promise<void> | null;
  /** There may be room for more of this webhook. */
  draw(webhookId: string): void;
  /** Nothing waits any more, now and later. */
  close(): void;
}

interface Waiting {
  readonly begin: () => boolean;
  /** Ends the wait. */
  readonly leave: () => void;
}

export function createRoomQueue({ limit, maxWait, mayWait }: RoomQueueDeps): RoomQueue {
  /** By webhook, in the order in which they came. */
  const queues = new Map<string, Set<Waiting>>();
  let size = 0;
  let closed = false;

  function add(webhookId: string, begin: () => boolean, resolve: () => void): void {
    const queue = queues.get(webhookId) ?? new Set();
    const timer = setTimeout(() => entry.leave(), maxWait);
    const entry: Waiting = {
      begin,
      leave() {
        clearTimeout(timer);
        queue.delete(entry);
        if (queue.size === 0) queues.delete(webhookId);
        size -= 1;
        resolve();
      },
    };
    queues.set(webhookId, queue.add(entry));
    size += 1;
  }

  return {
    get size() {
      return size;
    },
    has: (webhookId) => queues.has(webhookId),
    wait(webhook, begin) {
      if (closed || size >= limit || !mayWait(webhook)) return null;
      return new Promise((resolve) => add(webhook.webhookId, begin, resolve));
    },
    draw(webhookId) {
      for (const { begin, leave } of queues.get(webhookId) ?? []) {
        if (!begin()) return;
        leave();
      }
    },
    close() {
      closed = true;
      for (const queue of [...queues.values()]) {
        for (const { leave } of queue) leave();
      }
    },
  };
}
