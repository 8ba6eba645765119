import { TimeoutError } from '../../mongo/with-timeout.ts';

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
        if (error instanceof TimeoutError) return;
      }
    }
  }

  await Promise.all(Array.from({ length: concurrency }, work));
  if (failure) throw failure.error;
}
