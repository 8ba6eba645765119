import { type CollectionIndexes, type FoundIndex, findIndexes, isLacking } from './indexes.ts';
import { primaryOf, type SchemaDeps } from './prepare-schema.ts';

/** How long a result is used: the indexes seldom change, and the check takes a command for each collection. Milliseconds. */
const presentFor = 60_000;
/** The same where an index is missing, or the database did not answer. Milliseconds. */
const lackingFor = 5_000;

/**
 * Makes the function that tells which indexes are missing, different or being built; `undefined` where the database does not say so. Of collections whose
 * loss loses nothing, no index is needed.
 */
export function createIndexCheck({ connection, needed }: SchemaDeps): () => Promise<readonly FoundIndex[] | undefined> {
  const important = needed.filter(({ isDisposable }: CollectionIndexes) => !isDisposable);
  let last: { readonly at: number; readonly lacking: Promise<readonly FoundIndex[] | undefined> } | undefined;
  let validFor = 0;

  async function read(): Promise<readonly FoundIndex[] | undefined> {
    const found = await findIndexes(primaryOf(connection), important).catch(() => undefined);
    const lacking = found?.filter(isLacking);
    validFor = lacking?.length === 0 ? presentFor : lackingFor;
    return lacking;
  }

  return () => {
    const now = performance.now();
    if (!last || now - last.at > validFor) {
      validFor = lackingFor;
      last = { at: now, lacking: read() };
    }
    return last.lacking;
  };
}
