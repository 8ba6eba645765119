/** Milliseconds. */
export const hourLength = 3_600_000;

/** When the hour (UTC) of a moment began. Both in milliseconds since the epoch. */
export function hourOf(moment: number): number {
  return Math.floor(moment / hourLength) * hourLength;
}
