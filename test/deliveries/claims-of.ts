import { Claims } from '../../src/deliveries/claims.ts';
import type { DeliveryModel } from '../../src/deliveries/model.ts';
import { createDatabaseClock } from '../../src/mongo/clock.ts';
import { PendingWork } from '../../src/pending-work.ts';
import { silentLogger } from '../support/logger.ts';

/** Whom nobody needs to tell. */
export const noListeners = { onAttempt() {}, onFailed() {}, onEnded() {} };

/** What claims and attempts of a process share, with leases that are not renewed, and outlast any test. Durations are milliseconds. */
export function claimTerms(deliveries: DeliveryModel, owner = 'worker', lease = 600_000) {
  return {
    ...noListeners,
    deliveries,
    owner,
    lease,
    renewInterval: 600_000,
    retention: 1_000_000,
    clock: createDatabaseClock(deliveries.db),
    logger: silentLogger,
    concurrency: 100,
    pendingWork: new PendingWork(),
  };
}

/** The claims of one process. @param given what is not as in {@link claimTerms} */
export function claimsOf(
  deliveries: DeliveryModel,
  owner?: string,
  lease?: number,
  given: Partial<ConstructorParameters<typeof Claims>[0]> = {},
) {
  return new Claims({ ...claimTerms(deliveries, owner, lease), ...given });
}

/** No jobs: sweeps find what is due. */
export const noJobs = { shortestWait: 0, async schedule() {} };
