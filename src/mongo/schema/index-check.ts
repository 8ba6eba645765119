import { type CollectionIndexes, findIndexes, isLacking } from './indexes.ts';
import { primaryOf, type SchemaDeps } from './prepare-schema.ts';

/** How long a result is used: the indexes seldom change, and the check takes a command for each collection. Milliseconds. */
const presentFor = 60_000;
/** The same where an index is missing, or the database did not answer. Milliseconds. */
const lackingFor = 5_000;

/**
 * Makes the function that tells whether every index is there; `undefined` where the database does not say so. Of collections whose
 * loss loses nothing, no index is needed.
 */
export function createIndexCheck({ connection, needed }: SchemaDeps): () => Promise<boolean | undefined> {
  const important = needed.filter(({ isDisposable }: CollectionIndexes) => !isDisposable);
  let last: { readonly at: number; readonly indexesPresent: Promise<boolean | undefined> } | undefined;
  let validFor = 0;

  async function read(): Promise<boolean | undefined> {
    const found = await findIndexes(primaryOf(connection), important).catch(() => undefined);
    const indexesPresent = found && !found.some(isLacking);
    validFor = indexesPresent ? presentFor : lackingFor;
    return indexesPresent;
  }

  return () => {
    const now = performance.now();
    if (!last || now - last.at > validFor) {
      validFor = lackingFor;
      last = { at: now, indexesPresent: read() };
    }
    return last.indexesPresent;
  };
}
