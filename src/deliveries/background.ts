/** Work that nobody waits for until the end. */
export interface Background {
  /** Takes a promise that never rejects. */
  add(work: Promise<void>): void;
  /** Resolves when all of it is done. */
  done(): Promise<void>;
}

/** Keeps hold of what was started and not awaited, so that closing can. */
export function createBackground(): Background {
  const under = new Set<Promise<void>>();
  return {
    add(work) {
      const ended: Promise<void> = work.finally(() => under.delete(ended));
      under.add(ended);
    },
    async done() {
      while (under.size > 0) await Promise.all(under);
    },
  };
}
