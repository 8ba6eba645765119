import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mongoose';
import type { EventStatuses } from '../events/history.ts';
import type { EventModel } from '../events/model.ts';
import type { FanOuts } from '../events/service.ts';
import type { Outbox } from '../events/store/outbox.ts';
import type { SettleSubscribers } from '../events/store/settle-subscribers.ts';
import { createRenewEvents, createTakeEvents } from '../events/store/take-events.ts';
import { createInFlightLimit } from '../fairness/in-flight-limit.ts';
import { newId } from '../ids.ts';
import type { DatabaseClock } from '../mongo/clock.ts';
import type { ResolvedOptions } from '../options/options.ts';
import { createAttempts, type ReceiverLookUp, readReceiver } from './attempt/attempt.ts';
import { type OnAttempt, withAttemptListener } from './attempt/attempt-listener.ts';
import { createClaims } from './attempt/claims.ts';
import { createRecordLate, withLateSuccess } from './attempt/late-success.ts';
import { createLeases } from './attempt/leases.ts';
import { createBackground } from './background.ts';
import type { DeliveryContext } from './body.ts';
import { createEventStatuses } from './event-statuses.ts';
import { createFanOut } from './fan-out/fan-out.ts';
import { createFirstWrites } from './fan-out/first-writes.ts';
import { createHeldEvents } from './fan-out/held-events.ts';
import { createStoreDelivery } from './fan-out/store-delivery.ts';
import { createDeliveryHistory, type DeliveryHistory, type ShownDelivery } from './history.ts';
import { createJobs } from './jobs/jobs.ts';
import type { DeliveryModel } from './model.ts';
import { type AttemptWait, createAttemptWait } from './redeliver/attempt-wait.ts';
import { createMakeManualAttempt } from './redeliver/manual-attempt.ts';
import { createManualClaims } from './redeliver/manual-claims.ts';
import { createFindRecoverable, type FindRecoverable } from './redeliver/recoverable.ts';
import { createRedeliver, type Redeliver } from './redeliver/redeliver.ts';
import { createResend, type Resend } from './redeliver/resend.ts';
import { type AttemptTest, createAttemptTest } from './redeliver/test-event.ts';
import { createRetention } from './retention.ts';
import { type ClientOptions, createDeliveryClients } from './send/clients.ts';
import { createSend } from './send/send.ts';
import { createUnstored } from './unstored.ts';
import { createDue } from './worker/due.ts';
import { createWatches } from './worker/watch.ts';
import { createWorker } from './worker/worker.ts';

/** A dead worker's attempts are free after this long. Milliseconds. */
const lease = 4_500;
/** Milliseconds. Two renewals may fail before a lease lapses. */
const renewInterval = 1_250;

export interface DeliveryServiceDeps {
  readonly connection: Connection;
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  readonly outbox: Outbox;
  readonly clock: DatabaseClock;
  readonly settleSubscribers: SettleSubscribers;
  /** With its secret opened. */
  readonly forDelivery: ReceiverLookUp;
  /** Which addresses may be connected to. */
  readonly clients: ClientOptions;
  readonly options: Pick<
    ResolvedOptions,
    | 'collectionPrefix'
    | 'retryDelays'
    | 'attemptTimeout'
    | 'concurrency'
    | 'concurrencyPerAccount'
    | 'concurrencyPerWebhook'
    | 'retentionDays'
    | 'sweepInterval'
    | 'changeStreams'
    | 'logger'
  >;
  /** `express-model-gateway/<version>`. */
  readonly userAgent: string;
  /** Told of every attempt of this process that has been recorded. @default nobody is */
  readonly onAttempt?: OnAttempt;
}

export interface DeliveryService {
  /** Builds the indexes. To be awaited before anything else. */
  init(): Promise<void>;
  /** Makes the deliveries of events. */
  readonly fanOut: FanOuts;
  /** How long this process holds an event that it fans out. Milliseconds. */
  readonly lease: number;
  /** How events stand, as their deliveries tell. */
  readonly eventStatuses: EventStatuses;
  readonly history: DeliveryHistory;
  /** What is sent, where to, and how. */
  context(delivery: ShownDelivery): Promise<DeliveryContext>;
  /** Makes one more attempt now. */
  readonly resend: Resend;
  /** Makes the one attempt of a test event that this process holds. */
  readonly attemptTest: AttemptTest;
  readonly hasEnded: AttemptWait['hasEnded'];
  /** What can be sent again for a recovery … */
  readonly recoverable: FindRecoverable;
  /** … and sends it. */
  readonly redeliver: Redeliver;
  /** Makes attempts in this process from now on. */
  start(): Promise<void>;
  /** Starts no more attempts, waits for those in flight, gives everything back. Recoveries can still send. May be called again. */
  stop(): Promise<void>;
  /** Stops, and sends nothing more. At most 35 s; may be called again. */
  close(): Promise<void>;
}

/** Everything about deliveries, joined. */
export function createDeliveryService(deps: DeliveryServiceDeps): DeliveryService {
  const { deliveries, outbox, clock, settleSubscribers, forDelivery, userAgent, options, onAttempt = () => {} } = deps;
  const { retryDelays, concurrencyPerAccount, logger } = options;
  const owner = newId('wrk', Date.now());
  const clients = createDeliveryClients(deps.clients);
  const background = createBackground();
  const closed = new AbortController();
  // each write that is being tried again listens
  setMaxListeners(0, closed.signal);
  const retention = options.retentionDays * 86_400_000;
  const claiming = { deliveries, owner, lease, retention };
  const ending = { logger, closed: closed.signal };
  const fenced = createClaims(claiming);
  const leases = createLeases({ renew: fenced.renew, lease, interval: renewInterval, logger });
  const firstWrites = createFirstWrites({ ...claiming, ...ending, claims: fenced, leases, clock });
  /** It waits for nothing any more. */
  const onDelivered = (deliveryId: string) => background.add(jobs.remove({ deliveryId }));
  const claims = withAttemptListener(
    withLateSuccess(firstWrites.claims, createRecordLate(claiming), onDelivered),
    onAttempt,
  );
  const manualClaims = createManualClaims(claiming);
  const { send, hasEnded } = createAttemptWait(createSend(clients, options.attemptTimeout));
  const unstored = createUnstored(deliveries, deps.events, retryDelays);
  const history = createDeliveryHistory(deliveries, unstored);
  const take = createTakeEvents(deps.events, clock);
  const heldEvents = createHeldEvents({ renew: createRenewEvents(deps.events), lease, logger });
  const jobs = createJobs({
    connection: deps.connection,
    owner,
    collection: `${options.collectionPrefix}jobs`,
    wake: (ref) => worker.wake(ref),
    logger,
  });
  const fanOut = createFanOut({
    outbox,
    firstWrites,
    heldEvents,
    retryDelays,
    lease,
    isWorking: () => worker.isWorking,
    hasRoom: (webhook) => worker.hasRoom(webhook),
    handOver: (first) => worker.handOver(first),
    waiting: { has: (webhookId) => worker.waiting.has(webhookId), wait: (...given) => worker.waiting.wait(...given) },
    receiver: (webhookId, event) => readReceiver(forDelivery, webhookId, event),
    enqueue: (refs) => worker.enqueue(refs),
    wake: () => worker.onEvent(),
    later: background.add,
    logger,
  });
  const attempts = createAttempts({
    claims,
    leases,
    send,
    forDelivery,
    body: outbox.body,
    retryDelays,
    schedule: (ref, wait) => background.add(jobs.schedule(ref, wait)),
    scheduleWaiting: (ref) => jobs.scheduleWaiting([ref]),
    userAgent,
    ...ending,
  });
  const watches = createWatches({
    deliveries,
    events: deps.events,
    onDue: (webhook) => worker.onDue(webhook),
    onEvent: () => worker.onEvent(),
    logger,
  });
  const worker = createWorker({
    ...options,
    attempts,
    due: createDue(deliveries),
    watches: options.changeStreams ? watches : [],
    fanOuts: { outbox, take, lease, settleSubscribers, fanOut: fanOut.fanOut, heldEvents },
    expireEvents: createRetention(deliveries, outbox, retention),
    jobs,
  });

  const makeManualAttempt = createMakeManualAttempt({
    claims: manualClaims,
    leases: createLeases({ renew: manualClaims.renew, lease, interval: renewInterval, logger }),
    send,
    forDelivery,
    body: outbox.body,
    onAttempt,
    onDelivered,
    userAgent,
    ...ending,
  });

  async function close(): Promise<void> {
    try {
      await worker.close();
    } finally {
      await Promise.race([background.done(), sleep(1_000, undefined, { ref: false })]);
      closed.abort();
      await clients.close();
    }
  }
  let closing: Promise<void> | null = null;

  return {
    async init() {
      await Promise.all([deliveries.createIndexes(), jobs.init()]);
    },
    fanOut,
    lease,
    eventStatuses: createEventStatuses(deliveries, deps.events),
    history,
    async context({ webhookId, eventId }) {
      const [webhook, bytes] = await Promise.all([forDelivery(webhookId), outbox.body(eventId)]);
      return { url: webhook?.url ?? null, body: bytes, userAgent, retryDelays };
    },
    resend: createResend({
      claims: manualClaims,
      attempt: makeManualAttempt,
      store: createStoreDelivery({ unstored, take, settleSubscribers, fanOut, lease }),
      history,
      hasEnded,
      background,
      limit: createInFlightLimit(concurrencyPerAccount, 'resends'),
      logger,
    }),
    attemptTest: createAttemptTest({ fanOut, attempts }),
    hasEnded,
    recoverable: createFindRecoverable(deliveries, deps.events),
    redeliver: createRedeliver({
      deliveries,
      events: deps.events,
      claims: manualClaims,
      attempt: makeManualAttempt,
      attemptScheduled: attempts.make,
      retryDelays,
    }),
    start: worker.start,
    stop: worker.close,
    close() {
      closing ??= close();
      return closing;
    },
  };
}
