import type { mongo } from 'mongoose';

/** With less of its disk free, a database is soon read-only, or ends. A share of 1. */
export const leastFree = 0.1;

/** How much of the primary's disk is free, as a share of 1; `undefined` where it does not say so, as through mongos. */
export async function readFreeDisk(db: mongo.Db): Promise<number | undefined> {
  const { fsUsedSize, fsTotalSize } = await db.command({ dbStats: 1 });
  if (!(fsTotalSize > 0)) return undefined;
  return Math.max(0, 1 - fsUsedSize / fsTotalSize);
}
