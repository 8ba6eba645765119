/** Work in the background, for which no caller waits. */
export interface PendingWork {
  /** Takes a promise that never rejects. */
  add(work: Promise<void>): void;
  /** Resolves when all of it is done. */
  done(): Promise<void>;
}

/** Remembers work that was started and not awaited, so that closing can wait for it. */
export function createPendingWork(): PendingWork {
  const running = new Set<Promise<void>>();
  return {
    add(work) {
      const ended: Promise<void> = work.finally(() => running.delete(ended));
      running.add(ended);
    },
    async done() {
      while (running.size > 0) await Promise.all(running);
    },
  };
}
