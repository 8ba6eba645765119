import { setMaxListeners } from 'node:events';
import type { Connection } from 'mongoose';
import type { EventModel } from '../events/model.ts';
import { createClaimEvents, createRenewEvents, type Outbox, type SettleSubscribers } from '../events/outbox.ts';
import type { FanOuts } from '../events/service.ts';
import { createInFlightLimit } from '../fairness/account-shares.ts';
import type { SendRateModel } from '../fairness/model.ts';
import { createSendRates } from '../fairness/send-rates.ts';
import { newId } from '../ids.ts';
import type { DatabaseClock } from '../mongo/clock.ts';
import { createPeriodic } from '../mongo/periodic.ts';
import type { ResolvedOptions } from '../options/options.ts';
import { PendingWork } from '../pending-work.ts';
import type { TargetLookUp } from '../webhooks/webhook.ts';
import { Attempts, createAttemptWait } from './attempt.ts';
import { type AttemptListeners, Claims, type ClaimsDeps } from './claims.ts';
import { createDue, createUnfinishedEvents, type Due, type DueDeps } from './due.ts';
import { createDueAttempts } from './due-reads.ts';
import { createEventStatuses } from './event-statuses.ts';
import { expireEvents } from './expiry.ts';
import { FanOut, type FanOutObserver } from './fan-out.ts';
import { createDeliveryHistory, createDerivedDeliveries, type ShownDelivery } from './history.ts';
import { createJobs } from './jobs.ts';
import { createManualAttempts } from './manual-attempt.ts';
import type { DeliveryModel } from './model.ts';
import { createFindRecoverable } from './recoveries.ts';
import { createMakeTestAttempt, createRedeliver, createResend } from './redeliver.ts';
import type { RetryRules } from './retry.ts';
import { Scheduler, type SchedulerDeps } from './scheduler.ts';
import { type ClientOptions, createDeliveryClient, createSend } from './send.ts';

/** How long the lease of an attempt or of an event lasts: after that, another process may go on for a dead one. Milliseconds. */
const defaultLease = 4_500;
/** Two renewals may fail before a lease lapses. Milliseconds. */
const renewInterval = 1_250;
/** How long closing waits for pending work. Milliseconds. */
const pendingWorkWait = 1_000;
/** How often events older than the retention are looked for, and the longest that one such search may take. Milliseconds. */
const [expiryInterval, longestExpiry] = [3_600_000, 600_000] as const;

/** Whoever is not given is not told. */
export interface DeliveryServiceDeps extends Partial<AttemptListeners>, Pick<DueDeps, 'onSwept'> {
  readonly connection: Connection;
  readonly deliveries: DeliveryModel;
  readonly sendRates: SendRateModel;
  readonly events: EventModel;
  readonly outbox: Outbox;
  readonly clock: DatabaseClock;
  readonly settleSubscribers: SettleSubscribers;
  /** Reads a webhook with its opened secrets. */
  readonly forDelivery: TargetLookUp;
  /** The present URL of a webhook; `null` if it is gone. */
  readonly urlOf: (webhookId: string) => Promise<string | null>;
  /** Which addresses may be connected to. */
  readonly clients: ClientOptions;
  readonly options: RetryRules &
    Pick<SchedulerDeps, 'concurrency' | 'concurrencyPerAccount' | 'concurrencyPerWebhook' | 'maxWait'> &
    Pick<DueDeps, 'sweepInterval' | 'changeStreams' | 'logger'> &
    Pick<ResolvedOptions['deliveries'], 'attemptTimeout' | 'retentionDays'> &
    Pick<ResolvedOptions, 'collectionPrefix'> &
    Partial<Pick<ResolvedOptions, 'tracing'> & Pick<ClaimsDeps, 'lease' | 'storeAfter'>>;
  /** `express-model-gateway/<version>`. */
  readonly userAgent: string;
  /** @default none */
  readonly fanOutObserver?: FanOutObserver;
}

export type DeliveryService = ReturnType<typeof createDeliveryService>;

/** What a function resolves to when it is called for the first time, for every call. */
function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | null = null;
  return () => {
    done ??= work();
    return done;
  };
}

/** Joins the parts of deliveries. Each takes those above it. */
function createParts(deps: DeliveryServiceDeps) {
  const { deliveries, events, outbox, options, fanOutObserver } = deps;
  const { lease = defaultLease } = options;
  const closed = new AbortController();
  // every write that is being retried listens
  setMaxListeners(0, closed.signal);
  const client = createDeliveryClient(deps.clients);
  const propagateTrace = options.tracing?.propagateToReceivers;
  const { send, hasEnded } = createAttemptWait(createSend(client, options.attemptTimeout, propagateTrace));
  const pendingWork = new PendingWork();
  const owner = newId('wrk', Date.now());
  /** A sweep sees each attempt twice before it is due, so that one sweep may fail. */
  const lookAhead = 2 * options.sweepInterval;
  const jobs = createJobs({ ...options, connection: deps.connection, owner, lookAhead });
  const shared = {
    ...{ onAttempt() {}, onFailed() {}, onEnded() {} },
    ...deps,
    ...options,
    ...{ owner, lease, renewInterval, pendingWork, jobs, send },
    retention: options.retentionDays * 86_400_000,
    closed: closed.signal,
    sendRates: createSendRates(deps.sendRates),
    target: deps.forDelivery,
    body: outbox.body,
    take: createClaimEvents(events, deps.clock),
  };

  const claims = new Claims({ ...shared, ...(fanOutObserver && { onInserted: fanOutObserver.inserted }) });
  const attempts = new Attempts({ ...shared, claims });
  const reads = createDueAttempts(deliveries, lookAhead);
  const scheduler = new Scheduler({ ...options, attempts, due: reads });
  const fanOut = new FanOut({ ...shared, claims, scheduler, renewEvents: createRenewEvents(events) });
  const unfinished = createUnfinishedEvents({ ...shared, fanOut, scheduler });
  const due = createDue({ ...shared, reads, scheduler, unfinished });
  const expiry = createPeriodic({
    name: 'expiring events',
    task: () => expireEvents(shared),
    interval: expiryInterval,
    longestRun: longestExpiry,
    logger: options.logger,
  });

  const derivedDeliveries = createDerivedDeliveries(deliveries, events, options.retryDelays);
  const history = createDeliveryHistory(deliveries, derivedDeliveries);
  const manual = createManualAttempts(shared);
  const limit = createInFlightLimit(options.concurrencyPerAccount, 'resends');
  const resend = createResend({ ...shared, manual, history, derivedDeliveries, fanOut, hasEnded, limit });

  const stop = once(async () => {
    claims.close();
    outbox.close();
    const drained = scheduler.close();
    await Promise.all([due.stop(), expiry.stop()]);
    await drained;
  });
  const close = once(async () => {
    try {
      await stop();
    } finally {
      await pendingWork.done(pendingWorkWait);
      closed.abort();
      await client.close();
    }
  });
  return { jobs, attempts, scheduler, fanOut, due, expiry, history, manual, resend, hasEnded, lease, stop, close };
}

/** What other subjects see of deliveries, and do to them. */
export function createDeliveryService(deps: DeliveryServiceDeps) {
  const { deliveries, events, outbox, userAgent } = deps;
  const { retryDelays } = deps.options;
  const { jobs, attempts, scheduler, fanOut, due, expiry, manual, ...parts } = createParts(deps);

  return {
    /** Await it before {@link start}. @throws GatewayError `jobs_unavailable` */
    init: jobs.init,
    /** Makes the deliveries of events. */
    fanOut: { prepare: fanOut.prepare.bind(fanOut), wake: due.onEvent } satisfies FanOuts,
    /** How long this process holds an event that it fans out. Milliseconds. */
    lease: parts.lease,
    /** The states of events, from their deliveries. */
    eventStatuses: createEventStatuses(deliveries, events),
    history: parts.history,
    /** What the details of a delivery show beside it: `url` is the webhook's present one. `null` if the webhook or the event is gone. */
    async context(userId: string, { webhookId, eventId }: ShownDelivery) {
      const [url, body] = await Promise.all([deps.urlOf(webhookId), outbox.body({ _id: eventId, userId })]);
      return { url, body, userAgent, retryDelays };
    },
    /** Makes one more attempt now. */
    resend: parts.resend,
    /** Makes the one attempt of a test event that this process holds. */
    makeTestAttempt: createMakeTestAttempt(fanOut, attempts),
    /** Finds what a recovery can send again. */
    recoverable: createFindRecoverable(deliveries, events),
    /** Sends it again. */
    redeliver: createRedeliver({ deliveries, events, manual, attempts, retryDelays }),
    hasEnded: parts.hasEnded,
    /** What this process has under way. */
    scheduler: scheduler as Pick<Scheduler, 'isWorking' | 'attempts'>,
    /** Whether its sweep runs. */
    due: due as Pick<Due, 'isLive' | 'sweptAt'>,
    /** Makes attempts in this process from now on. */
    async start(): Promise<void> {
      scheduler.start();
      expiry.start();
      await due.start();
    },
    /** Starts no more attempts, waits for those in flight and gives everything else back. Recoveries can still send. May be called again. */
    stop: parts.stop,
    /** Stops, and sends nothing more. At most 35 s; may be called again. */
    close: parts.close,
  };
}
