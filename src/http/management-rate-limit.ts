import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { GatewayError } from '../errors.ts';

/**
 * Counts one request of an account.
 * @throws GatewayError `rate_limit_exceeded` with `retry-after`, in seconds, when the account is over its limit
 */
export type LimitAccount = (userId: string) => Promise<void>;

function createAccountLimit(perMinute: number, what: string): LimitAccount {
  const limiter = new RateLimiterMemory({ points: perMinute, duration: 60 });
  return async function limitAccount(userId) {
    try {
      await limiter.consume(userId);
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal;
      const seconds = Math.max(1, Math.ceil(refusal.msBeforeNext / 1_000));
      throw new GatewayError(
        'rate_limit_exceeded',
        `This account may make ${perMinute} ${what} a minute; try again in ${seconds} s`,
        { headers: { 'retry-after': String(seconds) } },
      );
    }
  };
}

/**
 * Limits how many changes one account may make in a minute, in this process: every change costs the database a majority write.
 */
export function createWriteLimit(perMinute: number): LimitAccount {
  return createAccountLimit(perMinute, 'changes');
}

/** Limits how often one account may read in a minute, in this process: every read costs the database a few queries. */
export function createReadLimit(perMinute: number): LimitAccount {
  return createAccountLimit(perMinute, 'reads');
}
