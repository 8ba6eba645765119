/**
 * How many shared places one account may use: a part of those that the others leave free, and at least one. The more accounts
 * there are, the fewer each gets, and some places stay free for the next (dynamic threshold, Choudhury and Hahne, 1998). Pure.
 * @param left places that the others do not use
 * @param part of them, as in 2 of 3
 */
export function dynamicThreshold(left: number, part: number, of: number): number {
  return Math.max(1, Math.floor((part * left) / of));
}
