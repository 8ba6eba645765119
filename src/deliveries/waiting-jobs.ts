import type { AttemptRef } from './attempt-ref.ts';

/** How long jobs are gathered before they are stored; what begins in the meantime needs none. Milliseconds. */
const linger = 250;
/** Gathered jobs that are stored at once, however soon. */
const most = 1_000;

/**
 * Attempts that are due and wait for a place. The worker that holds them back knows of them and begins them as soon as
 * there is one, and sweeps find them for every other; so their jobs are in no hurry, and a webhook that is at its share
 * costs one insert of many now and then instead of a job that is stored, rung in vain and removed for every event.
 */
export interface WaitingJobs {
  add(bells: readonly AttemptRef[]): void;
  /** The attempt has begun; `false` when its job is stored already. */
  drop(bell: AttemptRef): boolean;
  /** Stores what is left. */
  flush(): Promise<void>;
}

const keyOf = ({ deliveryId, attempt }: AttemptRef) => `${deliveryId} ${attempt}`;

/** @param store never rejects */
export function createWaitingJobs(store: (bells: readonly AttemptRef[]) => Promise<void>): WaitingJobs {
  const waiting = new Map<string, AttemptRef>();
  let timer: NodeJS.Timeout | undefined;

  async function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    const bells = [...waiting.values()];
    waiting.clear();
    await store(bells);
  }

  return {
    add(bells) {
      for (const bell of bells) waiting.set(keyOf(bell), bell);
      if (waiting.size >= most) void flush();
      else timer ??= setTimeout(() => void flush(), linger);
    },
    drop: (bell) => waiting.delete(keyOf(bell)),
    flush,
  };
}
