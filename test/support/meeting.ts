/**
 * Where tests wait for each other: once each of them has arrived, `act` runs, and all go on when it has. One that has arrived may do so
 * again, so that each can be sure in the end to keep no other waiting.
 */
export function meeting<T>(expected: readonly T[], act: () => Promise<void>): (arriving: T) => Promise<void> {
  const missing = new Set(expected);
  let open = () => {};
  const acted = new Promise<void>((resolve) => {
    open = resolve;
  }).then(act);
  // whoever waits for it tells that it failed
  acted.catch(() => {});
  return function arrive(arriving) {
    if (missing.delete(arriving) && missing.size === 0) open();
    return acted;
  };
}
