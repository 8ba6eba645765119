import type { EventModel } from '../events/model.ts';
import { type ClaimEvents, createRenewEvents } from '../events/store/claim-events.ts';
import type { Outbox } from '../events/store/outbox.ts';
import type { SettleSubscribers } from '../events/store/settle-subscribers.ts';
import type { DatabaseClock } from '../mongo/clock.ts';
import type { OnRun } from '../mongo/periodic.ts';
import type { ResolvedOptions } from '../options/options.ts';
import { type Attempts, createAttempts } from './attempt/attempt.ts';
import { type AttemptListeners, withAttemptListeners } from './attempt/attempt-listener.ts';
import { type Claims, createClaims } from './attempt/claims/claims.ts';
import { createLeaseRenewal, type LeaseRenewal } from './attempt/claims/lease-renewal.ts';
import { readTarget, type TargetLookUp } from './attempt/delivery-target.ts';
import { createRecordLate, withLateSuccess } from './attempt/late-success.ts';
import { createFanOut, type FanOut } from './fan-out/fan-out.ts';
import type { FanOutObserver } from './fan-out/fan-out-observer.ts';
import { createFirstWrites, type FirstWrites } from './fan-out/first-writes.ts';
import { createHeldEvents } from './fan-out/held-events.ts';
import type { Jobs } from './jobs/jobs.ts';
import type { DeliveryModel } from './model.ts';
import type { PendingWork } from './pending-work.ts';
import type { SendRates } from './rate-limit/send-rates.ts';
import { createRetention } from './retention.ts';
import type { Send } from './send/send.ts';
import { createClaimableAttempts } from './worker/claimable-attempts.ts';
import { createWatches } from './worker/watch.ts';
import { createWorker, type Worker } from './worker/worker.ts';

/** Durations are milliseconds. */
export interface ScheduledDeliveryDeps extends AttemptListeners {
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  readonly outbox: Outbox;
  readonly clock: DatabaseClock;
  readonly settleSubscribers: SettleSubscribers;
  /** Reads a webhook with its opened secrets. */
  readonly forDelivery: TargetLookUp;
  readonly sendRates: SendRates;
  readonly options: Pick<
    ResolvedOptions,
    | 'retryDelays'
    | 'honorRetryAfter'
    | 'concurrency'
    | 'concurrencyPerAccount'
    | 'concurrencyPerWebhook'
    | 'sweepInterval'
    | 'changeStreams'
    | 'logger'
  >;
  /** `express-model-gateway/<version>`. */
  readonly userAgent: string;
  /** Names this process in its leases. */
  readonly owner: string;
  readonly lease: number;
  readonly renewInterval: number;
  /** How long events and deliveries are kept. */
  readonly retention: number;
  readonly send: Send;
  readonly take: ClaimEvents;
  readonly jobs: Jobs;
  readonly pendingWork: PendingWork;
  /** @default none */
  readonly fanOutObserver?: FanOutObserver;
  /** Called after each sweep. @default nobody is */
  readonly onSwept?: OnRun;
  /** Called when a late success has ended a delivery. */
  readonly onDelivered: (deliveryId: string) => void;
  /** Aborted when the gateway has closed. */
  readonly closed: AbortSignal;
}

/** The parts that deliver events on schedule. */
export interface ScheduledDelivery {
  readonly fanOut: FanOut;
  readonly attempts: Attempts;
  readonly worker: Worker;
}

/** The claims of scheduled attempts. */
interface AttemptClaims {
  readonly claims: Claims;
  readonly leases: LeaseRenewal;
  readonly firstWrites: FirstWrites;
}

function createAttemptClaims(deps: ScheduledDeliveryDeps): AttemptClaims {
  const { lease, closed, onDelivered } = deps;
  const { logger } = deps.options;
  const stored = createClaims(deps);
  const leases = createLeaseRenewal({ renew: stored.renew, lease, interval: deps.renewInterval, logger });
  const firstWrites = createFirstWrites({ ...deps, claims: stored, leases, logger, closed });
  const withLate = withLateSuccess(firstWrites.claims, createRecordLate(deps), onDelivered);
  return { claims: withAttemptListeners(withLate, deps), leases, firstWrites };
}

/** Joins the parts that take an event from its fan-out to the last retry. */
export function createScheduledDelivery(deps: ScheduledDeliveryDeps): ScheduledDelivery {
  const { deliveries, events, outbox, settleSubscribers, forDelivery, lease, send, take, jobs, pendingWork } = deps;
  const { options, userAgent, retention, closed } = deps;
  const { retryDelays, logger } = options;
  const { claims, leases, firstWrites } = createAttemptClaims(deps);
  const heldEvents = createHeldEvents({ renew: createRenewEvents(events), lease, logger });
  const fanOut = createFanOut({
    outbox,
    firstWrites,
    heldEvents,
    retryDelays,
    lease,
    isWorking: () => worker.isWorking,
    hasRoom: (webhook) => worker.hasRoom(webhook),
    handOver: (first) => worker.handOver(first),
    waiting: {
      has: (webhookId) => worker.waiting.has(webhookId),
      wait: (webhook, begin) => worker.waiting.wait(webhook, begin),
    },
    receiver: (webhookId, event) => readTarget(forDelivery, webhookId, event),
    enqueue: (refs) => worker.enqueue(refs),
    wake: () => worker.onEvent(),
    later: pendingWork.add,
    ...(deps.fanOutObserver && { fanOutObserver: deps.fanOutObserver }),
    logger,
  });
  const attempts = createAttempts({
    claims,
    leases,
    send,
    forDelivery,
    sendRates: deps.sendRates,
    body: outbox.body,
    retryDelays,
    honorRetryAfter: options.honorRetryAfter,
    schedule: (ref, wait) => pendingWork.add(jobs.schedule(ref, wait)),
    scheduleWaiting: (ref) => jobs.scheduleWaiting([ref]),
    userAgent,
    logger,
    closed,
  });
  const watches = createWatches({
    deliveries,
    events,
    onDue: (webhook) => worker.onDue(webhook),
    onEvent: () => worker.onEvent(),
    logger,
  });
  const worker = createWorker({
    ...options,
    attempts,
    due: createClaimableAttempts(deliveries),
    watches: options.changeStreams ? watches : [],
    fanOuts: { outbox, take, lease, settleSubscribers, fanOut: fanOut.fanOut, heldEvents },
    expireEvents: createRetention(deliveries, outbox, retention),
    jobs,
    ...(deps.onSwept && { onSwept: deps.onSwept }),
  });
  return { fanOut, attempts, worker };
}
