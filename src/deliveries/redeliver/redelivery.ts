import type { EventModel } from '../../events/model.ts';
import type { ClaimEvents } from '../../events/store/claim-events.ts';
import type { Outbox } from '../../events/store/outbox.ts';
import type { SettleSubscribers } from '../../events/store/settle-subscribers.ts';
import { createInFlightLimit } from '../../fairness/in-flight-limit.ts';
import type { Logger } from '../../options/options.ts';
import type { Attempts } from '../attempt/attempt.ts';
import type { AttemptListeners } from '../attempt/attempt-listener.ts';
import { createLeaseRenewal } from '../attempt/claims/lease-renewal.ts';
import type { TargetLookUp } from '../attempt/delivery-target.ts';
import type { FanOut } from '../fan-out/fan-out.ts';
import type { DerivedDeliveries } from '../lists/derived-deliveries.ts';
import type { DeliveryHistory } from '../lists/history.ts';
import type { DeliveryModel } from '../model.ts';
import type { PendingWork } from '../pending-work.ts';
import type { SendRates } from '../rate-limit/send-rates.ts';
import type { Send } from '../send/send.ts';
import type { AttemptWait } from './attempt-wait.ts';
import { createMakeManualAttempt } from './manual-attempt.ts';
import { createManualClaims } from './manual-claims.ts';
import { createFindRecoverable, type FindRecoverable } from './recoverable.ts';
import { createResend, createStoreDelivery, type Resend } from './resend.ts';
import { createRedeliver, type Redeliver } from './send-for-recovery.ts';
import { createMakeTestAttempt, type MakeTestAttempt } from './test-attempt.ts';

/** Durations are milliseconds. */
export interface RedeliveryDeps extends Pick<AttemptListeners, 'onAttempt' | 'onEnded'> {
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  readonly owner: string;
  readonly lease: number;
  readonly renewInterval: number;
  readonly retention: number;
  readonly send: Send;
  readonly hasEnded: AttemptWait['hasEnded'];
  readonly forDelivery: TargetLookUp;
  readonly sendRates: SendRates;
  readonly body: Outbox['body'];
  readonly attempts: Attempts;
  readonly fanOut: FanOut;
  readonly history: DeliveryHistory;
  readonly derivedDeliveries: DerivedDeliveries;
  readonly take: ClaimEvents;
  readonly settleSubscribers: SettleSubscribers;
  readonly pendingWork: PendingWork;
  readonly onDelivered: (deliveryId: string) => void;
  readonly retryDelays: readonly number[];
  readonly concurrencyPerAccount: number;
  readonly userAgent: string;
  readonly logger: Logger;
  readonly closed: AbortSignal;
}

/** Attempts on request. */
export interface Redelivery {
  /** Makes one more attempt now. */
  readonly resend: Resend;
  /** Makes the one attempt of a test event that this process holds. */
  readonly makeTestAttempt: MakeTestAttempt;
  /** Finds what a recovery can send again. */
  readonly recoverable: FindRecoverable;
  /** Sends it again. */
  readonly redeliver: Redeliver;
}

/** Joins the parts of resends, test events and recoveries. */
export function createRedelivery(deps: RedeliveryDeps): Redelivery {
  const { deliveries, events, lease, fanOut, attempts, history, pendingWork, logger } = deps;
  const claims = createManualClaims(deps);
  const leases = createLeaseRenewal({ renew: claims.renew, lease, interval: deps.renewInterval, logger });
  const attempt = createMakeManualAttempt({ ...deps, claims, leases });
  return {
    resend: createResend({
      claims,
      attempt,
      store: createStoreDelivery(deps),
      history,
      hasEnded: deps.hasEnded,
      pendingWork,
      limit: createInFlightLimit(deps.concurrencyPerAccount, 'resends'),
      logger,
    }),
    makeTestAttempt: createMakeTestAttempt({ fanOut, attempts }),
    recoverable: createFindRecoverable(deliveries, events),
    redeliver: createRedeliver({
      deliveries,
      events,
      claims,
      attempt,
      attemptScheduled: attempts.make,
      retryDelays: deps.retryDelays,
    }),
  };
}
