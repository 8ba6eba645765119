/** What starts an attempt. Only the claim decides whether it is really due. */
export interface Bell {
  readonly deliveryId: string;
  readonly webhookId: string;
  readonly attempt: number;
}

export interface IntakeDeps {
  /** Attempts in flight at once. */
  readonly concurrency: number;
  /** Attempts in flight at once to one webhook, so that one that hangs cannot take them all. */
  readonly perWebhook: number;
  /** Bells kept for later, for each webhook; what comes beyond is left to the sweep. */
  readonly waitingPerWebhook: number;
  /** Makes the attempt. Never rejects. */
  readonly run: (bell: Bell) => Promise<void>;
  /** Called when an attempt has ended and nothing waits that could be started. */
  readonly onSpace: () => void;
}

/** Which attempts run in this process, and which wait for a place. */
export interface Intake {
  /** Starts the attempt, or keeps it until there is a place; `false` when too many wait already. */
  offer(bell: Bell): boolean;
  /** Webhooks that have all their places in use. */
  full(): string[];
  /** Whether another attempt could be started at once. */
  hasSpace(): boolean;
  /** Starts nothing more; resolves when what runs has ended. */
  close(): Promise<void>;
}

/** A fair share of the places for each webhook. */
export function createIntake({ concurrency, perWebhook, waitingPerWebhook, run, onSpace }: IntakeDeps): Intake {
  const running = new Map<string, Promise<void>>();
  const runningFor = new Map<string, number>();
  /** By webhook, the one served longest ago first. */
  const waiting = new Map<string, Map<string, Bell>>();
  let closed = false;

  const hasSpace = () => !closed && running.size < concurrency;
  const isFull = (webhookId: string) => (runningFor.get(webhookId) ?? 0) >= perWebhook;

  function count(webhookId: string, change: 1 | -1): void {
    const now = (runningFor.get(webhookId) ?? 0) + change;
    if (now === 0) runningFor.delete(webhookId);
    else runningFor.set(webhookId, now);
  }

  function start(bell: Bell): void {
    count(bell.webhookId, 1);
    const ended = run(bell).finally(() => {
      running.delete(bell.deliveryId);
      count(bell.webhookId, -1);
      startWaiting();
    });
    running.set(bell.deliveryId, ended);
  }

  function keep(bell: Bell): boolean {
    const queue = waiting.get(bell.webhookId) ?? new Map<string, Bell>();
    if (queue.has(bell.deliveryId)) return true;
    if (queue.size >= waitingPerWebhook) return false;
    waiting.set(bell.webhookId, queue.set(bell.deliveryId, bell));
    return true;
  }

  function takeNext(): Bell | undefined {
    for (const [webhookId, queue] of waiting) {
      if (isFull(webhookId)) continue;
      const [bell] = queue.values();
      if (!bell) continue;
      queue.delete(bell.deliveryId);
      waiting.delete(webhookId);
      if (queue.size > 0) waiting.set(webhookId, queue);
      return bell;
    }
    return undefined;
  }

  function startWaiting(): void {
    while (hasSpace()) {
      const bell = takeNext();
      if (!bell) break;
      start(bell);
    }
    if (hasSpace()) onSpace();
  }

  return {
    offer(bell) {
      if (closed || running.has(bell.deliveryId)) return true;
      if (!hasSpace() || isFull(bell.webhookId)) return keep(bell);
      start(bell);
      return true;
    },
    full: () => [...runningFor.keys()].filter(isFull),
    hasSpace,
    async close() {
      closed = true;
      waiting.clear();
      await Promise.all(running.values());
    },
  };
}
