import { TimeoutError } from '../../mongo/with-timeout.ts';

/** A host's function may throw something that throws when it is looked at. */
function isTimeout(error: unknown): boolean {
  try {
    return error instanceof TimeoutError;
  } catch {
    return false;
  }
}

/**
 * Runs the tasks, at most so many at a time, even after one has failed. After a TimeoutError it starts no more: each of the
 * others would wait as long.
 * @param concurrency how many run at a time
 * @throws the first error
 */
export async function forEachDespiteErrors<Item>(
  items: Iterable<Item>,
  task: (item: Item) => Promise<void>,
  concurrency = 1,
): Promise<void> {
  const iterator = items[Symbol.iterator]();
  let failure: { readonly error: unknown } | undefined;

  async function work(): Promise<void> {
    for (let next = iterator.next(); !next.done; next = iterator.next()) {
      try {
        await task(next.value);
      } catch (error) {
        failure ??= { error };
        if (isTimeout(error)) return;
      }
    }
  }

  await Promise.all(Array.from({ length: concurrency }, work));
  if (failure) throw failure.error;
}
