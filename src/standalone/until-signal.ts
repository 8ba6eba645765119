/** npm passes Ctrl-C on to a process that the terminal has already told: the same wish, said twice. */
const echo = 1_000;

/** Resolves at Ctrl-C or SIGTERM. Another one, a second or more later, ends the process at once. */
export function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    let first: number | undefined;
    const onSignal = () => {
      first ??= Date.now();
      if (Date.now() - first > echo) process.exit(130);
      resolve();
    };
    // kept for good: without a handler the next signal would end the process before mongod is down
    process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  });
}
