/** How long a good value is used, and how long any other. Milliseconds. */
const [wellFor, otherwiseFor] = [15_000, 5_000] as const;

/**
 * Makes a function that caches what `read` returns: for 15 s, or for 5 s if the value is not good. It returns `undefined` if
 * the value cannot be read.
 */
export function createCachedReading<T>(
  read: () => Promise<T>,
  isWell: (value: T) => boolean,
): () => Promise<T | undefined> {
  let last: { readonly at: number; readonly value: Promise<T | undefined> } | undefined;
  let validFor = 0;

  async function readAgain(): Promise<T | undefined> {
    try {
      const value = await read();
      validFor = isWell(value) ? wellFor : otherwiseFor;
      return value;
    } catch {
      return undefined;
    }
  }

  return () => {
    const now = performance.now();
    if (!last || now - last.at > validFor) {
      validFor = otherwiseFor;
      last = { at: now, value: readAgain() };
    }
    return last.value;
  };
}
