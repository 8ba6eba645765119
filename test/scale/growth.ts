import { median } from '../bench/report.ts';

/** One value of a series, so many minutes after its beginning. */
export interface Sample {
  readonly minute: number;
  readonly value: number;
}

/** By how much the second half of a series may grow: a share of its median, or an amount if that is more. */
export interface Bound {
  readonly share: number;
  readonly amount: number;
}

/** How a series went over its second half, in the unit of its values. */
export interface Growth {
  readonly median: number;
  readonly perHour: number;
  /** By the slope, from the first sample of the second half to the last. */
  readonly growth: number;
  readonly allowed: number;
  /** Whether it grew by no more than is allowed. It may fall. */
  readonly isFlat: boolean;
}

/** The median of the slopes between any two samples (Theil and Sen): a few samples that stand out do not move it. */
function slopeOf(samples: readonly Sample[]): number {
  const slopes = samples.flatMap((from, i) =>
    samples.slice(i + 1).map((to) => (to.value - from.value) / (to.minute - from.minute)),
  );
  return median(slopes);
}

/** @throws when the second half has fewer than two samples */
export function growthOf(samples: readonly Sample[], bound: Bound): Growth {
  const half = samples.slice(Math.floor(samples.length / 2));
  const [first, last] = [half[0], half.at(-1)];
  if (!first || !last || first === last) throw new RangeError(`${samples.length} samples are too few for a slope`);
  const slope = slopeOf(half);
  const middle = median(half.map(({ value }) => value));
  const growth = slope * (last.minute - first.minute);
  const allowed = Math.max(bound.share * middle, bound.amount);
  return { median: middle, perHour: slope * 60, growth, allowed, isFlat: growth <= allowed };
}
