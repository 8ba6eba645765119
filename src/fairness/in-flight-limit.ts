import { GatewayError } from '../errors.ts';

/** Limits what one account has under way at once in this process. */
export interface InFlightLimit {
  /**
   * Counts one more, until what is returned is called.
   * @throws GatewayError `rate_limit_exceeded` when it is one too many
   */
  enter(userId: string): () => void;
}

/** @param what is counted, in the plural, as in `resends` */
export function createInFlightLimit(limit: number, what: string): InFlightLimit {
  const counts = new Map<string, number>();

  function leave(userId: string): void {
    const count = (counts.get(userId) ?? 1) - 1;
    if (count === 0) counts.delete(userId);
    else counts.set(userId, count);
  }

  return {
    enter(userId) {
      const count = counts.get(userId) ?? 0;
      if (count >= limit) {
        const message = `This account already has the maximum of ${limit} ${what} under way; try again when one has ended`;
        throw new GatewayError('rate_limit_exceeded', message, { headers: { 'retry-after': '1' } });
      }
      counts.set(userId, count + 1);
      let hasEnded = false;
      return () => {
        if (!hasEnded) leave(userId);
        hasEnded = true;
      };
    },
  };
}
