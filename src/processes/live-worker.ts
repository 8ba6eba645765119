import { durableCollection } from '../mongo/collection.ts';
import type { ProcessModel } from './model.ts';

/** How long the database may take. Milliseconds. */
const maxTimeMS = 1_000;

/** Makes the function that says whether a live process makes delivery attempts. */
export function createHasWorker(processes: ProcessModel): () => Promise<boolean> {
  const collection = durableCollection(processes);
  const isLiveWorker = { role: { $ne: 'api' as const }, $expr: { $gt: ['$liveUntil', '$$NOW'] } };
  return async () =>
    (await collection.findOne(isLiveWorker, { projection: { _id: 1 }, hint: 'expiry', maxTimeMS })) !== null;
}
