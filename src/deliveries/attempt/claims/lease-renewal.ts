import { createPeriodic } from '../../../mongo/periodic.ts';
import type { Logger } from '../../../options/options.ts';
import type { Claim } from './claim.ts';

/** Keeps this worker's claims alive while it makes their attempts. */
export interface LeaseRenewal {
  /** Renews the lease from now on. @param until when it ends otherwise, by `performance.now()`. @default `claim.heldUntil` */
  hold(claim: Claim, until?: number): void;
  /** A claim whose delivery is not stored: it ends with the lease of its event, unless `hold` follows. */
  track(claim: Claim): void;
  /** Whether this worker surely still holds the claim if it writes the request now; judged by the monotonic clock. */
  mayStillSend(claim: Claim): boolean;
  drop(claim: Claim): void;
}

export interface LeaseRenewalDeps {
  /** Extends the leases that are still held, and returns those claims. */
  readonly renew: (claims: readonly Claim[]) => Promise<readonly Claim[]>;
  /** How long a lease lasts after a renewal. Milliseconds. */
  readonly lease: number;
  /** Between renewals. Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** The time that a lease must still last when a request is written, because the request takes time to reach the receiver. Milliseconds. */
export const sendMargin = 500;

/** Renews all held leases in one write. */
export function createLeaseRenewal({ renew, lease, interval, logger }: LeaseRenewalDeps): LeaseRenewal {
  /** When each lease ends at the earliest, by `performance.now()`. */
  const leaseEnds = new Map<Claim, number>();
  /** The claims whose leases are renewed. */
  const held = new Set<Claim>();

  async function renewAll(): Promise<void> {
    // the new lease starts later than this, by the database's clock
    const askedAt = performance.now();
    for (const claim of await renew([...held])) {
      const until = leaseEnds.get(claim);
      if (until !== undefined) leaseEnds.set(claim, Math.max(until, askedAt + lease));
    }
  }

  const renewal = createPeriodic({
    name: 'renewing leases',
    task: renewAll,
    interval,
    initialDelay: interval,
    // a renewal without an answer must not delay the next one
    longestRun: interval,
    logger,
  });

  return {
    hold(claim, until = claim.heldUntil) {
      leaseEnds.set(claim, until);
      held.add(claim);
      renewal.start();
    },
    track(claim) {
      leaseEnds.set(claim, claim.heldUntil);
    },
    mayStillSend: (claim) => performance.now() < (leaseEnds.get(claim) ?? 0) - sendMargin,
    drop(claim) {
      leaseEnds.delete(claim);
      held.delete(claim);
      if (held.size === 0) void renewal.stop();
    },
  };
}
