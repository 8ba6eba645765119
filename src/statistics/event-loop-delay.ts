import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Between two looks at the event loop, which its delays include. Milliseconds. */
const resolution = 20;

/** How late this process's timers are. */
export interface EventLoopDelay {
  /** The 99th percentile since the last call, in seconds; `undefined` where nothing was measured since. */
  read(): number | undefined;
  /** Ends the measuring. */
  close(): void;
}

/** Starts to measure the delays of the event loop. */
export function measureEventLoopDelay(): EventLoopDelay {
  const delays = monitorEventLoopDelay({ resolution });
  delays.enable();
  return {
    read() {
      const measured = delays.count > 0 ? Math.max(0, delays.percentile(99) / 1e9 - resolution / 1e3) : undefined;
      delays.reset();
      return measured;
    },
    close: () => void delays.disable(),
  };
}
