/** npm passes Ctrl-C on to a process that already has it from the terminal: two signals this close are one. Milliseconds. */
const echoOfNpm = 1_000;
const parentInterval = 250;

/** The shell in which npm runs a script ends at SIGTERM without passing it on. The only sign is another parent process. */
function onNpmExit(parent: number, onExit: () => void): void {
  if (process.env.npm_lifecycle_event === undefined) return;
  const looking = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(looking);
    onExit();
  }, parentInterval);
  looking.unref();
}

/**
 * Resolves at Ctrl-C or SIGTERM, the one that only npm got too. Another signal ends the process at once; under
 * npm, one that comes a second or more later.
 * @param parent `process.ppid` as it was when the process began
 */
export function untilSignal(parent: number): Promise<void> {
  return new Promise((resolve) => {
    const echo = process.env.npm_lifecycle_event === undefined ? 0 : echoOfNpm;
    let first: number | undefined;
    const onSignal = () => {
      if (first !== undefined && Date.now() - first >= echo) process.exit(130);
      first ??= Date.now();
      resolve();
    };
    // never removed: without a handler the next signal would end the process before mongod has stopped
    process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
    onNpmExit(parent, resolve);
  });
}
