import type { Connection, Model } from 'mongoose';
import { databaseOf } from '../../../src/mongo/collection.ts';
import {
  buildIndexes as buildNeeded,
  type CollectionIndexes,
  indexesOfModel,
} from '../../../src/mongo/schema/indexes.ts';

/** Makes collections with their indexes, as a gateway does when it starts. */
export async function buildIndexes(
  connection: Connection,
  // biome-ignore lint/suspicious/noExplicitAny: models of any document
  ...collections: readonly (Model<any> | CollectionIndexes)[]
): Promise<void> {
  const needed = collections.map((model) =>
    'indexes' in model ? (model as CollectionIndexes) : indexesOfModel(model),
  );
  await buildNeeded(databaseOf(connection), needed);
}
