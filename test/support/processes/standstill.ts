/** How often the watch looks. Milliseconds. */
const interval = 10;

/**
 * Watches for how long this process stands still because others have the CPU. A test that holds a time against a bound leaves that
 * out: whoever waits for something in this process waits for so much longer. What this process computes itself is not left out, for
 * the code under test may be what computes.
 */
export function watchStandstill() {
  let before = 0;
  let lookedAt = performance.now();
  let cpuAtLook = process.cpuUsage();
  const sinceLook = (): number => {
    const { user, system } = process.cpuUsage(cpuAtLook);
    return Math.max(0, performance.now() - lookedAt - (user + system) / 1_000 - 2 * interval);
  };
  const timer = setInterval(() => {
    before += sinceLook();
    lookedAt = performance.now();
    cpuAtLook = process.cpuUsage();
  }, interval);
  timer.unref();
  /** Milliseconds without those in which this process stood still: the difference of two is the time between them. */
  const now = (): number => performance.now() - before - sinceLook();
  return { now, stop: () => clearInterval(timer) };
}
