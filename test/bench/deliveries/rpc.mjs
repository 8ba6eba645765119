/**
 * Calls between the processes of the benchmark. The child answers what its parent asks.
 * @param {Record<string, (...args: any[]) => unknown>} procedures
 */
export function serve(procedures) {
  process.on('message', async ({ id, name, args }) => {
    try {
      process.send?.({ id, result: await procedures[name]?.(...args) });
    } catch (error) {
      process.send?.({ id, error: String(error?.stack ?? error) });
    }
  });
  // without the benchmark there is nobody to work for
  process.on('disconnect', () => process.exit());
}

/** Milliseconds of the machine's monotonic clock, which all processes share. */
export const now = () => Number(process.hrtime.bigint()) / 1e6;
