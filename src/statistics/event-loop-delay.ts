import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Between two looks at the event loop, which its delays include. Milliseconds. */
const resolution = 20;

/** How late this process's timers are. Seconds. */
export interface EventLoopDelay {
  /** Since the last call; `undefined` where nothing was measured since. */
  read(): { readonly p99: number; readonly max: number } | undefined;
  /** Ends the measuring. */
  close(): void;
}

/** Starts to measure the delays of the event loop. */
export function measureEventLoopDelay(): EventLoopDelay {
  const delays = monitorEventLoopDelay({ resolution });
  delays.enable();
  return {
    read() {
      if (delays.count === 0) return undefined;
      const lateness = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - resolution / 1e3);
      const measured = { p99: lateness(delays.percentile(99)), max: lateness(delays.max) };
      delays.reset();
      return measured;
    },
    close: () => void delays.disable(),
  };
}
