/** How often the watch looks. Milliseconds. */
const interval = 10;

/**
 * Watches for how long this process stands still, because other processes have the CPU or because it computes. A test that
 * holds a time against a bound leaves that out: whoever waits for something in this process waits for so much longer.
 */
export function watchStandstill() {
  let before = 0;
  let lookedAt = performance.now();
  const sinceLook = () => Math.max(0, performance.now() - lookedAt - 2 * interval);
  const timer = setInterval(() => {
    before += sinceLook();
    lookedAt = performance.now();
  }, interval);
  timer.unref();
  /** Milliseconds without those in which this process stood still: the difference of two is the time between them. */
  const now = (): number => performance.now() - before - sinceLook();
  return { now, stop: () => clearInterval(timer) };
}
