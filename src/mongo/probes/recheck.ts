/** How long a value is used that is well, and any other. Milliseconds. */
const [wellFor, otherwiseFor] = [15_000, 5_000] as const;

/**
 * Makes a function that reads what seldom changes, for those who ask often. It reads again after 15 s, or after 5 s if the value was not
 * well. `undefined` stands for a value that could not be read.
 */
export function createRecheck<T>(read: () => Promise<T>, isWell: (value: T) => boolean): () => Promise<T | undefined> {
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
