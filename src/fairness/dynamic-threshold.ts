/**
 * How many of the places that several share one of them may use: a part of what the others leave, and one at least. The
 * more of them there are, the less each one gets, and some places stay free for the next (dynamic threshold, Choudhury and
 * Hahne, 1998). Pure.
 * @param left places that the others do not use
 * @param part of them, as in 2 of 3
 */
export function dynamicThreshold(left: number, part: number, of: number): number {
  return Math.max(1, Math.floor((part * left) / of));
}
