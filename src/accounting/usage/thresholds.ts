/** A threshold, and the usage that has reached it. Both in percent of the quota. */
export interface Crossing {
  readonly threshold: number;
  readonly usage: number;
}

/** To two decimals. Pure. */
function percent(used: number, quota: number): number {
  return Math.round((used / quota) * 10_000) / 100;
}

/** The usage of one quota, as calls add to it. */
export interface AddedUsage {
  /** The usage before these amounts. */
  readonly before: number;
  readonly amounts: readonly number[];
  readonly quota: number;
  readonly thresholds: readonly number[];
  /** Thresholds that are published already. */
  readonly announced: readonly number[];
}

/**
 * The thresholds that are reached while these amounts are added one by one, each at the first amount that reaches it. A
 * threshold that was passed before, under another quota, is reached at the first amount. Pure.
 */
export function crossings({ before, amounts, quota, thresholds, announced }: AddedUsage): Crossing[] {
  const missing = new Set([...thresholds].sort((a, b) => a - b).filter((threshold) => !announced.includes(threshold)));
  const reached: Crossing[] = [];
  let used = before;
  for (const amount of amounts) {
    used += amount;
    for (const threshold of missing) {
      if (used * 100 < threshold * quota) break;
      missing.delete(threshold);
      reached.push({ threshold, usage: percent(used, quota) });
    }
  }
  return reached;
}
