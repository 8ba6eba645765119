import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mongoose';
import type { EventStatuses } from '../events/history.ts';
import type { EventModel } from '../events/model.ts';
import type { FanOuts } from '../events/service.ts';
import type { Outbox } from '../events/store/outbox.ts';
import type { SettleSubscribers } from '../events/store/settle-subscribers.ts';
import { createRenewEvents, createTakeEvents } from '../events/store/take-events.ts';
import { newId } from '../ids.ts';
import type { DatabaseClock } from '../mongo/clock.ts';
import { durableCollection } from '../mongo/collection.ts';
import { confirm } from '../mongo/confirmed-reads.ts';
import type { ResolvedOptions } from '../options/options.ts';
import { createAttempts } from './attempt/attempt.ts';
import { type OnAttempt, withAttemptListener } from './attempt/attempt-listener.ts';
import { createClaims } from './attempt/claims.ts';
import { createRecordLate, withLateSuccess } from './attempt/late-success.ts';
import { createLeases } from './attempt/leases.ts';
import { type ReceiverLookUp, readReceiver } from './attempt/receiver.ts';
import { createBackground } from './background.ts';
import type { DeliveryContext } from './body.ts';
import type { ShownDelivery } from './delivery-page.ts';
import { createEventStatuses } from './event-statuses.ts';
import { createFanOut } from './fan-out/fan-out.ts';
import { createFirstWrites } from './fan-out/first-writes.ts';
import { createHeldEvents } from './fan-out/held-events.ts';
import { createDeliveryHistory, type DeliveryHistory } from './history.ts';
import { createJobs } from './jobs/jobs.ts';
import type { DeliveryModel } from './model.ts';
import { type AttemptWait, createAttemptWait } from './redeliver/attempt-wait.ts';
import { createRedelivery, type Redelivery } from './redeliver/redelivery.ts';
import { type ClientOptions, createDeliveryClients } from './send/clients.ts';
import { createSend } from './send/send.ts';
import { createUnstored } from './unstored.ts';
import { createDue } from './worker/due.ts';
import { createWatches } from './worker/watch.ts';
import { createWorker } from './worker/worker.ts';

/** How long the lease of an attempt lasts: after that, another process may make a dead worker's attempts. Milliseconds. */
const lease = 4_500;
/** Two renewals may fail before a lease lapses. Milliseconds. */
const renewInterval = 1_250;

/** Events in one step of the retention. */
const retentionBatch = 500;

/**
 * Lets events expire that are older than the retention and have no delivery left. Deliveries expire by themselves
 * after their end, so a pending delivery never loses its event.
 * @param retention milliseconds
 */
export function createRetention(
  deliveries: DeliveryModel,
  outbox: Pick<Outbox, 'unexpired' | 'expire'>,
  retention: number,
) {
  const collection = durableCollection(deliveries);
  return async function expireEvents(): Promise<void> {
    const before = Date.now() - retention;
    let after = '';
    for (;;) {
      const ids = await outbox.unexpired(before, after, retentionBatch);
      const last = ids.at(-1);
      if (last === undefined) return;
      after = last;
      const eventId = { $in: ids };
      const needed = new Set(await confirm((options) => collection.distinct('eventId', { eventId }, options)));
      await outbox.expire(ids.filter((id) => !needed.has(id)));
    }
  };
}

export interface DeliveryServiceDeps {
  readonly connection: Connection;
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  readonly outbox: Outbox;
  readonly clock: DatabaseClock;
  readonly settleSubscribers: SettleSubscribers;
  /** Reads a webhook with its opened secrets. */
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
  /** Called after each attempt that this process has recorded. @default none */
  readonly onAttempt?: OnAttempt;
}

export interface DeliveryService extends Redelivery {
  /** Builds the indexes. Await it before anything else. */
  init(): Promise<void>;
  /** Makes the deliveries of events. */
  readonly fanOut: FanOuts;
  /** How long this process holds an event that it fans out. Milliseconds. */
  readonly lease: number;
  /** The states of events, from their deliveries. */
  readonly eventStatuses: EventStatuses;
  readonly history: DeliveryHistory;
  /** What the details of a delivery show beside it. */
  context(delivery: ShownDelivery): Promise<DeliveryContext>;
  readonly hasEnded: AttemptWait['hasEnded'];
  /** Makes attempts in this process from now on. */
  start(): Promise<void>;
  /** Starts no more attempts, waits for those in flight and gives everything else back. Recoveries can still send. May be called again. */
  stop(): Promise<void>;
  /** Stops, and sends nothing more. At most 35 s; may be called again. */
  close(): Promise<void>;
}

/** Joins the parts of deliveries. */
export function createDeliveryService(deps: DeliveryServiceDeps): DeliveryService {
  const { deliveries, outbox, clock, settleSubscribers, forDelivery, userAgent, options, onAttempt = () => {} } = deps;
  const { retryDelays, logger } = options;
  const owner = newId('wrk', Date.now());
  const clients = createDeliveryClients(deps.clients);
  const background = createBackground();
  const closed = new AbortController();
  // every write that is being retried listens
  setMaxListeners(0, closed.signal);
  const retention = options.retentionDays * 86_400_000;
  const claiming = { deliveries, owner, lease, retention };
  const ending = { logger, closed: closed.signal };
  const fenced = createClaims(claiming);
  const leases = createLeases({ renew: fenced.renew, lease, interval: renewInterval, logger });
  const firstWrites = createFirstWrites({ ...claiming, ...ending, claims: fenced, leases, clock });
  /** The delivery needs no job any more. */
  const onDelivered = (deliveryId: string) => background.add(jobs.remove({ deliveryId }));
  const claims = withAttemptListener(
    withLateSuccess(firstWrites.claims, createRecordLate(claiming), onDelivered),
    onAttempt,
  );
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

  const redelivery = createRedelivery({
    ...deps,
    ...options,
    ...claiming,
    ...ending,
    renewInterval,
    send,
    hasEnded,
    body: outbox.body,
    attempts,
    fanOut,
    history,
    unstored,
    take,
    background,
    onAttempt,
    onDelivered,
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
    ...redelivery,
    hasEnded,
    start: worker.start,
    stop: worker.close,
    close() {
      closing ??= close();
      return closing;
    },
  };
}
