import { withTimeout } from '../with-timeout.ts';
import { isItemFailure } from './item-failure.ts';

export type ItemOutcome<Result> = { readonly result: Result } | { readonly error: unknown };

export interface IsolatedWrite<Item, Result> {
  /** Writes items together and returns the results in their order. Writing an item twice must do no harm. */
  readonly write: (items: readonly Item[], isFirstTry: boolean) => Promise<readonly Result[]>;
  /** For each write. Milliseconds. @default 9_000 */
  readonly timeout?: number;
}

/**
 * Writes items together. When that fails because of an item, writes each half separately, and so on until the item is alone:
 * one bad item in n costs 2 log2(n) more writes. After a failure of the database it tries nothing more, and every item that
 * is not written yet fails with that error. Never rejects.
 */
export async function writeIsolated<Item, Result>(
  items: readonly Item[],
  { write, timeout }: IsolatedWrite<Item, Result>,
): Promise<ItemOutcome<Result>[]> {
  let down: { readonly error: unknown } | undefined;

  async function writePart(part: readonly Item[], isFirstTry: boolean): Promise<ItemOutcome<Result>[]> {
    const failed = down;
    if (failed) return part.map(() => failed);
    try {
      const results = await withTimeout(write(part, isFirstTry), timeout);
      return part.map((_, i) => ({ result: results[i] as Result }));
    } catch (error) {
      const isItems = isItemFailure(error);
      if (!isItems) down = { error };
      if (!isItems || part.length === 1) return part.map(() => ({ error }));
      const middle = Math.ceil(part.length / 2);
      const first = await writePart(part.slice(0, middle), false);
      return [...first, ...(await writePart(part.slice(middle), false))];
    }
  }

  return items.length === 0 ? [] : writePart(items, true);
}

/**
 * The items that cannot be written, each with its error.
 * @throws the failure of the database, at the first item that it has kept from being written
 */
export function* itemFailures<Item>(
  items: readonly Item[],
  outcomes: readonly ItemOutcome<unknown>[],
): Generator<readonly [Item, unknown]> {
  for (const [i, item] of items.entries()) {
    const outcome = outcomes[i];
    if (!outcome || 'result' in outcome) continue;
    if (!isItemFailure(outcome.error)) throw outcome.error;
    yield [item, outcome.error];
  }
}
