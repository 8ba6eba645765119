import type { Logger } from '../options.ts';
import type { Claim, Claims } from './claims.ts';

/** The claims of this worker, kept alive while their attempts are made. */
export interface Leases {
  hold(claim: Claim): void;
  drop(claim: Claim): void;
}

/**
 * Renews every held lease in one write, as long as there are any.
 * @param interval milliseconds between renewals
 */
export function createLeases(claims: Pick<Claims, 'renew'>, interval: number, logger: Logger): Leases {
  const held = new Set<Claim>();
  let timer: NodeJS.Timeout | null = null;

  function renewAll(): void {
    claims.renew([...held]).catch((error: unknown) => {
      logger.warn('leases were not renewed', { leases: held.size, reason: String(error) });
    });
  }

  return {
    hold(claim) {
      held.add(claim);
      timer ??= setInterval(renewAll, interval);
    },
    drop(claim) {
      held.delete(claim);
      if (held.size > 0 || timer === null) return;
      clearInterval(timer);
      timer = null;
    },
  };
}
