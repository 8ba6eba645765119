/** Each bucket is this many times as wide as the one before, so that a value read from it is exact to 10 percent. */
const growth = 1.2;

/** Counts of durations, by bucket: sparse, so that MongoDB can store and add them up, which histograms of libraries are not. */
export type Durations = Readonly<Record<string, number>>;

export function bucketOf(ms: number): number {
  return Math.floor(Math.log(Math.max(0, ms) + 1) / Math.log(growth));
}

/** The middle of a bucket, in whole milliseconds. */
function durationOf(bucket: number): number {
  return Math.round(growth ** (bucket + 0.5) - 1);
}

export function merged(all: readonly Durations[]): Durations {
  const sum: Record<string, number> = {};
  for (const durations of all) {
    for (const [bucket, count] of Object.entries(durations)) sum[bucket] = (sum[bucket] ?? 0) + count;
  }
  return sum;
}

/** The duration that this part of all durations does not exceed, in milliseconds; `null` if there are none. @param part 0 to 1 */
export function percentile(durations: Durations, part: number): number | null {
  const buckets = Object.entries(durations)
    .map(([bucket, count]) => ({ bucket: Number(bucket), count }))
    .sort((a, b) => a.bucket - b.bucket);
  const rank = part * buckets.reduce((total, { count }) => total + count, 0);
  let cumulative = 0;
  for (const { bucket, count } of buckets) {
    cumulative += count;
    if (cumulative >= rank) return durationOf(bucket);
  }
  return null;
}

/** Milliseconds. */
export const hourLength = 3_600_000;

/** When the hour (UTC) of a moment began. Both in milliseconds since the epoch. */
export function hourOf(moment: number): number {
  return Math.floor(moment / hourLength) * hourLength;
}
