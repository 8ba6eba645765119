/** A threshold, and the usage that has reached it. Both in percent of the quota. */
export interface Crossing {
  readonly threshold: number;
  readonly usage: number;
}

/** To two decimals. Pure. */
function percent(used: number, quota: number): number {
  return Math.round((used / quota) * 10_000) / 100;
}

/**
 * The thresholds that are reached while these amounts are added one by one, each at the first amount that reaches it. A
 * threshold that was passed before, under another quota, is reached at the first amount. Pure.
 * @param before the usage before these amounts
 * @param announced thresholds that are published already
 */
export function crossings(
  before: number,
  amounts: readonly number[],
  quota: number,
  thresholds: readonly number[],
  announced: readonly number[],
): Crossing[] {
  const missing = new Set([...thresholds].sort((a, b) => a - b).filter((threshold) => !announced.includes(threshold)));
  const found: Crossing[] = [];
  let used = before;
  for (const amount of amounts) {
    used += amount;
    for (const threshold of missing) {
      if (used * 100 < threshold * quota) break;
      missing.delete(threshold);
      found.push({ threshold, usage: percent(used, quota) });
    }
  }
  return found;
}
