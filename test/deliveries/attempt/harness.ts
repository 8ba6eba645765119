import type { Connection } from 'mongoose';
import { type AttemptDeps, Attempts } from '../../../src/deliveries/attempt.ts';
import { type AttemptResult, Claims } from '../../../src/deliveries/claims.ts';
import { createManualAttempts } from '../../../src/deliveries/manual-attempt.ts';
import { createDeliveryModel } from '../../../src/deliveries/model.ts';
import { createFindRecoverable } from '../../../src/deliveries/recoveries.ts';
import { NotSentError, type Send } from '../../../src/deliveries/send.ts';
import { createEventModel } from '../../../src/events/model.ts';
import { claimsOf, claimTerms, noJobs } from '../claims-of.ts';
import { noRateLimits } from '../delivery-services.ts';

/** A process that attempts deliveries, in the place of a gateway. */
export interface Attempting extends Pick<AttemptDeps, 'target'>, Partial<Pick<AttemptDeps, 'body' | 'retryDelays'>> {
  /** @default 'worker' */
  readonly owner?: string;
  /** Milliseconds. @default 600_000 */
  readonly lease?: number;
  /** Milliseconds. @default it does not renew */
  readonly renewInterval?: number;
  /** Told the status of each attempt that is recorded. */
  readonly onAttempt?: (attempt: { readonly status?: number }) => void;
  readonly send: Send;
}

/** The deliveries of one connection, and the processes that claim and attempt them. */
export function openDeliveries(connection: Connection) {
  const deliveries = createDeliveryModel(connection, 'gateway_');
  function partsOf({ owner, lease, ...given }: Attempting) {
    const terms = claimTerms(deliveries, owner, lease);
    const own = { body: async () => Buffer.from('{}'), sendRates: noRateLimits, jobs: noJobs, retryDelays: [] };
    return { ...terms, ...own, userAgent: 'test', ...given };
  }
  return {
    deliveries,
    claims: (owner?: string, lease?: number, given: Parameters<typeof claimsOf>[3] = {}) =>
      claimsOf(deliveries, owner, lease, given),
    /** Makes the first scheduled attempt of a delivery. */
    scheduled(process: Attempting) {
      const parts = partsOf(process);
      const attempts = new Attempts({ ...parts, claims: new Claims(parts) });
      return (deliveryId: string) => {
        const ref = { deliveryId, webhookId: 'wh_1', userId: 'usr_1', attempt: 1 };
        return attempts.make(attempts.prepare(ref).prepared);
      };
    },
    /** Makes attempts that are asked for. */
    manual(process: Attempting) {
      const parts = partsOf(process);
      return { ...createManualAttempts(parts), clock: parts.clock };
    },
    recoverable: () => createFindRecoverable(deliveries, createEventModel(connection, 'gateway_')),
  };
}

export type Deliveries = ReturnType<typeof openDeliveries>;
export type StoredDeliveries = Deliveries['deliveries'];
export type StoredDelivery = NonNullable<Awaited<ReturnType<StoredDeliveries['findOne']>>>;
type DeliveryClaims = ReturnType<Deliveries['claims']>;
/** What is done with a delivery after an attempt. */
export type Next = Parameters<DeliveryClaims['record']>[2];

/** Sends as a client does that has a connection: it asks once whether it still may. */
export function sendWith(answer: AttemptResult, onSent: () => void): Send {
  return async ({ maySend = () => true }) => {
    if (!maySend()) throw new NotSentError();
    onSent();
    return answer;
  };
}
