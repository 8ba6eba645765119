import type { WebhookRef } from '../attempt/attempt-ref.ts';

export interface RoomQueueDeps {
  /** How many attempts may wait. */
  readonly limit: number;
  /** Milliseconds. */
  readonly maxWait: number;
  /** Whether a first attempt of this webhook may wait: there is room for it as soon as another attempt of the webhook ends. */
  readonly mayWait: (webhook: WebhookRef) => boolean;
}

/** First attempts that wait in memory for room. Their deliveries are then stored once, with their outcome. */
export interface RoomQueue {
  /** How many attempts wait. */
  readonly size: number;
  /** Whether attempts of this webhook wait here: they come before its other attempts. */
  has(webhookId: string): boolean;
  /**
   * Calls `begin` whenever there may be room, until it returns `true`. Resolves then, or after `maxWait`. `null` if the
   * attempt may not wait.
   * @param begin returns whether the attempt has begun
   */
  wait(webhook: WebhookRef, begin: () => boolean): Promise<void> | null;
  /** There may be room for more attempts of this webhook. */
  draw(webhookId: string): void;
  /** Ends every wait, and allows no new one. */
  close(): void;
}

interface Waiting {
  readonly begin: () => boolean;
  /** Ends the wait. */
  readonly leave: () => void;
}

export function createRoomQueue({ limit, maxWait, mayWait }: RoomQueueDeps): RoomQueue {
  /** By webhook, in the order of arrival. */
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
