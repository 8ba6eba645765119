import { createPeriodic } from '../../mongo/periodic.ts';
import type { Logger } from '../../options/options.ts';
import type { Claim } from './claims.ts';

/** The claims of this worker, kept alive while their attempts are made. */
export interface Leases {
  /** Renews the lease from now on. @param until when it ends otherwise, by `performance.now()`. @default as the claim says */
  hold(claim: Claim, until?: number): void;
  /** A claim whose delivery is not stored: it lasts as long as the lease of its event, unless it is held later. */
  track(claim: Claim): void;
  /** Whether a request that is written now is surely this worker's to send: judged by the monotonic clock, without the database. */
  isSure(claim: Claim): boolean;
  drop(claim: Claim): void;
}

export interface LeasesDeps {
  /** Extends the leases that are still held, and tells which they are. */
  readonly renew: (claims: readonly Claim[]) => Promise<readonly Claim[]>;
  /** How long a lease lasts from its renewal. Milliseconds. */
  readonly lease: number;
  /** Between renewals. Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** So much of a lease must be left when a request is written, which takes its time to the receiver. Milliseconds. */
export const margin = 500;

/** Renews every held lease in one write, as long as there are any. */
export function createLeases({ renew, lease, interval, logger }: LeasesDeps): Leases {
  /** Until when each is held for certain, by `performance.now()`. */
  const known = new Map<Claim, number>();
  /** Those whose leases are renewed. */
  const held = new Set<Claim>();

  async function renewAll(): Promise<void> {
    // the database's clock starts the new lease later than this
    const asked = performance.now();
    for (const claim of await renew([...held])) {
      const until = known.get(claim);
      if (until !== undefined) known.set(claim, Math.max(until, asked + lease));
    }
  }

  const renewal = createPeriodic({
    name: 'renewing leases',
    task: renewAll,
    interval,
    initialDelay: interval,
    // a renewal without an answer delays none that may still be in time
    longestRun: interval,
    logger,
  });

  return {
    hold(claim, until = claim.heldUntil) {
      known.set(claim, until);
      held.add(claim);
      renewal.start();
    },
    track(claim) {
      known.set(claim, claim.heldUntil);
    },
    isSure: (claim) => performance.now() < (known.get(claim) ?? 0) - margin,
    drop(claim) {
      known.delete(claim);
      held.delete(claim);
      if (held.size === 0) void renewal.stop();
    },
  };
}
