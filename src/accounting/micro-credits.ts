/** Micro-credits in a credit. Amounts are whole numbers of them, so that no sum is ever rounded. */
export const microCreditsPerCredit = 1_000_000;
