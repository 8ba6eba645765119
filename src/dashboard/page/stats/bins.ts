import type { StatsHour } from '../api/types.ts';

/** Several hours taken together. */
export interface Bin {
  /** ISO 8601. */
  readonly start: string;
  readonly end: string;
  readonly succeeded: number;
  readonly failed: number;
}

const hour = 3_600_000;

function sum(hours: readonly StatsHour[], of: (hour: StatsHour) => number): number {
  return hours.reduce((total, item) => total + of(item), 0);
}

/** The last `take` hours, `size` of them in a bin. */
export function binsOf(hours: readonly StatsHour[], take: number, size: number): Bin[] {
  const lastHours = hours.slice(-take);
  return Array.from({ length: Math.ceil(lastHours.length / size) }, (_, i) => {
    const part = lastHours.slice(i * size, (i + 1) * size);
    const start = part[0]?.start ?? '';
    const last = part.at(-1)?.start ?? start;
    return {
      start,
      end: new Date(Date.parse(last) + hour).toISOString(),
      succeeded: sum(part, ({ succeeded }) => succeeded),
      failed: sum(part, ({ failed }) => failed),
    };
  });
}

/** A round number at or above the highest bar, so that the axis is easy to read. */
export function niceTop(highest: number): number {
  if (highest <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(highest));
  const steps = [1, 2, 4, 5, 8, 10];
  return (steps.find((step) => step * power >= highest) ?? 10) * power;
}
