/** Random choices that a seed repeats. */
export interface Random {
  /** A whole number from 0 to below `limit`. */
  below(limit: number): number;
  pick<T>(items: readonly T[]): T;
}

/** Mulberry32: small, and good enough to choose faults with. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }
  return {
    below: (limit) => Math.floor(next() * limit),
    pick<T>(items: readonly T[]): T {
      return items[Math.floor(next() * items.length)] as T;
    },
  };
}
