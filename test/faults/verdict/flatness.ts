/** What a process holds at one time. */
export interface Reading {
  readonly pid: number;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Bytes. */
  readonly rss: number;
  /** Bytes, after a collection of garbage. */
  readonly heapUsed: number;
  /** What keeps it busy, by kind: sockets, timers and the like. */
  readonly handles: Readonly<Record<string, number>>;
  /** Warnings of Node since its start. */
  readonly warnings: number;
}

/**
 * The slope of points that goes up as steadily as they do: the median of the slopes between any two, which a few peaks do not move
 * (Theil and Sen).
 */
export function slopeOf(points: readonly (readonly [x: number, y: number])[]): number {
  const slopes = points.flatMap(([x1, y1], i) => points.slice(i + 1).map(([x2, y2]) => (y2 - y1) / (x2 - x1)));
  return slopes.sort((a, b) => a - b)[Math.floor(slopes.length / 2)] ?? 0;
}

const megabyte = 1024 * 1024;

export function timersOf({ handles }: Reading): number {
  return handles.Timeout ?? 0;
}

export function handlesOf(reading: Reading): number {
  return Object.values(reading.handles).reduce((sum, one) => sum + one, 0) - timersOf(reading);
}

/**
 * What must not grow in a process at rest, and by how much it may between the middle and the end of a run: a part of its mean, and
 * so much beside.
 */
const measures: readonly (readonly [name: string, (reading: Reading) => number, part: number, beside: number])[] = [
  ['rss, MB', ({ rss }) => rss / megabyte, 0.1, 20],
  ['heap after gc, MB', ({ heapUsed }) => heapUsed / megabyte, 0.1, 5],
  ['handles', handlesOf, 0, 10],
  ['timers', timersOf, 0, 10],
];
/** Fewer in the second half tell nothing of a slope. */
const fewest = 4;

const secondHalf = (readings: readonly Reading[]) => readings.slice(Math.floor(readings.length / 2));

/** Whether there are readings enough of a process to say that it did not grow. */
export function canTellGrowth(readings: readonly Reading[]): boolean {
  return secondHalf(readings).length >= fewest;
}

/** What grew in one process over the second half of its readings. */
export function growth(readings: readonly Reading[]): string[] {
  const half = secondHalf(readings);
  const [first, last] = [half[0], half.at(-1)];
  if (!first || !last || !canTellGrowth(readings)) return [];
  const found: string[] = [];
  for (const [name, measure, part, beside] of measures) {
    const values = half.map(measure);
    const grew = slopeOf(half.map((reading) => [reading.at, measure(reading)])) * (last.at - first.at);
    const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
    if (grew > mean * part + beside) {
      const minutes = Math.round((last.at - first.at) / 60_000);
      found.push(
        `${name} of process ${first.pid} grew by ${grew.toFixed(1)} in ${minutes} minutes, of ${mean.toFixed(1)}`,
      );
    }
  }
  if (last.warnings > 0) found.push(`process ${last.pid} was warned ${last.warnings} times`);
  return found;
}
