import { createCachedReading } from '../probes/cached-reading.ts';
import { type CollectionIndexes, type FoundIndex, findIndexes, isLacking } from './indexes.ts';
import { primaryOf, type SchemaDeps } from './prepare-schema.ts';

/**
 * Makes the function that tells which indexes are missing, different or being built; `undefined` where the database does not say so. Of collections whose
 * loss loses nothing, no index is needed.
 */
export function createIndexCheck({ connection, needed }: SchemaDeps) {
  const important = needed.filter(({ isDisposable }: CollectionIndexes) => !isDisposable);

  async function read(): Promise<readonly FoundIndex[]> {
    const found = await findIndexes(primaryOf(connection), important);
    return found.filter(isLacking);
  }

  return createCachedReading(read, (lacking) => lacking.length === 0);
}
