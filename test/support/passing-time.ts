/** Does this while time, as `performance` tells it, passes by what `pass` is called with alone. Milliseconds. */
export async function timePassing<T>(work: (pass: (milliseconds: number) => void) => Promise<T>): Promise<T> {
  const { now } = performance;
  let at = performance.now();
  try {
    performance.now = () => at;
    return await work((milliseconds) => {
      at += milliseconds;
    });
  } finally {
    performance.now = now;
  }
}
