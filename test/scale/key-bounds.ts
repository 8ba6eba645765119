import type { mongo } from 'mongoose';

/** A shard key, and an index on it. */
type Key = Readonly<Record<string, 1 | 'hashed'>>;

/** For each field of an index, the intervals that a plan reads, as text: `[5, 5]`. */
type Bounds = Readonly<Record<string, readonly string[]>>;

/** The interval of a field of which a query says nothing that the index could use. */
const everything = '[MinKey, MaxKey]';

function boundsIn(plan: unknown): Bounds[] {
  if (typeof plan !== 'object' || plan === null) return [];
  const { stage, indexBounds } = plan as { stage?: string; indexBounds?: Bounds };
  const ofScan = stage === 'IXSCAN' && indexBounds ? [indexBounds] : [];
  return [...ofScan, ...Object.values(plan).flatMap(boundsIn)];
}

/**
 * Asks MongoDB (`explain`) which intervals of a shard key a query can match, by the plan over an index on the key. A mongos plans the same to
 * find the shards of a query (`ChunkManager::getIndexBoundsForQuery` in MongoDB's sources).
 * @param collection has an index on the key
 * @returns the intervals of each field; `null` where some part of the query may match any value of a field
 */
export async function keyBounds(
  collection: mongo.Collection,
  filter: Readonly<Record<string, unknown>>,
  key: Key,
): Promise<Bounds | null> {
  const { queryPlanner } = await collection.find(filter).hint(key).explain('queryPlanner');
  const scans = boundsIn(queryPlanner.winningPlan);
  const isBounded = (scan: Bounds) =>
    Object.keys(key).every((field) => scan[field] && !scan[field].includes(everything));
  if (scans.length === 0 || !scans.every(isBounded)) return null;
  return Object.fromEntries(
    Object.keys(key).map((field) => [field, [...new Set(scans.flatMap((scan) => scan[field] ?? []))]]),
  );
}

/** Whether a query names exactly one value of the key. */
export function isOneValue(bounds: Bounds | null): boolean {
  if (bounds === null) return false;
  return Object.values(bounds).every(
    ([interval = '', ...others]) => !others.length && /^\[(.+), \1\]$/s.test(interval),
  );
}
