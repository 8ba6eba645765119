/** Runs the tasks one after the other, even after one has failed. @throws the first error */
export async function forEach<Item>(items: Iterable<Item>, task: (item: Item) => Promise<void>): Promise<void> {
  let failure: { readonly error: unknown } | undefined;
  for (const item of items) {
    await task(item).catch((error: unknown) => {
      failure ??= { error };
    });
  }
  if (failure) throw failure.error;
}
