import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mongoose';
import { createDatabaseClock } from '../database-clock.ts';
import type { EventStandings } from '../events/history.ts';
import type { EventModel } from '../events/model.ts';
import { createOutbox, type StoredEvent } from '../events/outbox.ts';
import type { FanOuts } from '../events/service.ts';
import type { SettleSubscribers } from '../events/settle-subscribers.ts';
import { createRenewEvents, createTakeEvents } from '../events/take-events.ts';
import { newId } from '../ids.ts';
import type { ResolvedOptions } from '../options.ts';
import { createAttempts, type ReceiverLookUp, readReceiver } from './attempt.ts';
import { type AttemptWait, createAttemptWait } from './attempt-wait.ts';
import { createBackground } from './background.ts';
import type { DeliverySurroundings } from './body.ts';
import { createClaims } from './claims.ts';
import { type ClientOptions, createDeliveryClients } from './clients.ts';
import { createDue } from './due.ts';
import { createFanOut } from './fan-out.ts';
import { createFirstWrites } from './first-writes.ts';
import { createHeldEvents } from './held-events.ts';
import { createDeliveryHistory, type DeliveryHistory, type ShownDelivery } from './history.ts';
import { createInFlightLimit } from './in-flight-limit.ts';
import { createJobs } from './jobs.ts';
import { createRecordLate, withLateSuccess } from './late-success.ts';
import { createLeases } from './leases.ts';
import { createMakeManualAttempt } from './manual-attempt.ts';
import { createManualClaims } from './manual-claims.ts';
import type { DeliveryModel } from './model.ts';
import { type OnAttempt, observed } from './observed.ts';
import { createFindRecoverable, type FindRecoverable } from './recoverable.ts';
import { createResend, type Resend } from './resend.ts';
import { createRetention } from './retention.ts';
import { createSend } from './send.ts';
import { createSendAgain, type SendAgain } from './send-again.ts';
import { createEventStandings } from './standings.ts';
import { createStoreDelivery } from './store-delivery.ts';
import { type AttemptTest, createAttemptTest } from './test-event.ts';
import { createUnstored } from './unstored.ts';
import { createWatches } from './watch.ts';
import { createWorker } from './worker.ts';

/** A dead worker's attempts are free after this long. Milliseconds. */
const lease = 4_500;
/** Milliseconds. Two renewals may fail before a lease lapses. */
const renewInterval = 1_250;

export interface DeliveryServiceDeps {
  readonly connection: Connection;
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  /** Makes sure that a stored event misses no webhook. @default it does not */
  readonly settleSubscribers?: SettleSubscribers;
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
  readonly standings: EventStandings;
  readonly history: DeliveryHistory;
  /** What is sent, where to, and how. */
  surroundings(delivery: ShownDelivery): Promise<DeliverySurroundings>;
  /** Makes one more attempt now. */
  readonly resend: Resend;
  /** Makes the one attempt of a test event that this process holds. */
  readonly attemptTest: AttemptTest;
  readonly hasEnded: AttemptWait['hasEnded'];
  /** What can be sent again for a recovery … */
  readonly recoverable: FindRecoverable;
  /** … and sends it. */
  readonly again: SendAgain;
  /** Makes attempts in this process from now on. */
  start(): Promise<void>;
  /** Starts no more attempts, waits for those in flight, gives everything back. Recoveries can still send. May be called again. */
  stop(): Promise<void>;
  /** Stops, and sends nothing more. At most 35 s; may be called again. */
  close(): Promise<void>;
}

/** Everything about deliveries, joined. */
export function createDeliveryService(deps: DeliveryServiceDeps): DeliveryService {
  const { connection, deliveries, forDelivery, userAgent, options, onAttempt = () => {} } = deps;
  const { settleSubscribers = async (event: StoredEvent) => event } = deps;
  const { retryDelays, concurrencyPerAccount, logger } = options;
  const owner = newId('wrk', Date.now());
  const clock = createDatabaseClock(connection);
  const outbox = createOutbox(deps.events, clock);
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
  const claims = observed(withLateSuccess(firstWrites.claims, createRecordLate(claiming), onDelivered), onAttempt);
  const manualClaims = createManualClaims(claiming);
  const { send, hasEnded } = createAttemptWait(createSend(clients, options.attemptTimeout));
  const unstored = createUnstored(deliveries, deps.events, retryDelays);
  const history = createDeliveryHistory(deliveries, unstored);
  const take = createTakeEvents(deps.events, clock);
  const heldEvents = createHeldEvents({ renew: createRenewEvents(deps.events), lease, logger });
  const jobs = createJobs({
    connection,
    owner,
    collection: `${options.collectionPrefix}jobs`,
    onBell: (bell) => worker.onBell(bell),
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
    ring: (bells) => worker.wait(bells),
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
    ring: (bell, wait) => background.add(jobs.schedule(bell, wait)),
    keep: (bell) => jobs.keep([bell]),
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
    standings: createEventStandings(deliveries, deps.events),
    history,
    async surroundings({ webhookId, eventId }) {
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
    again: createSendAgain({
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
