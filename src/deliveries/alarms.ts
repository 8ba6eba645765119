/** Calls that are made at a time by this process's clock, never before it. */
export interface Alarms {
  /** @param due milliseconds since 1970 */
  set(due: number, ring: () => void): void;
  clear(): void;
}

/** Alarms that keep no process alive. */
export function createAlarms(): Alarms {
  const timers = new Set<NodeJS.Timeout>();

  function set(due: number, ring: () => void): void {
    const timer = setTimeout(() => {
      timers.delete(timer);
      // a timer counts from the start of the event loop's turn it was set in, so it can fire early
      if (Date.now() < due) set(due, ring);
      else ring();
    }, due - Date.now());
    timer.unref();
    timers.add(timer);
  }

  return {
    set,
    clear() {
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
    },
  };
}
