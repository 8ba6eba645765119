import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mongoose';
import type { EventStatuses } from '../events/history.ts';
import type { FanOuts } from '../events/service.ts';
import { createClaimEvents } from '../events/store/claim-events.ts';
import { newId } from '../ids.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { AttemptListeners } from './attempt/attempt-listener.ts';
import { type BacklogSize, readBacklogSize, readOldestDue, readScheduled } from './backlog-size.ts';
import { createJobs } from './jobs/jobs.ts';
import type { DeliveryContext } from './lists/body.ts';
import type { ShownDelivery } from './lists/delivery-page.ts';
import { createDerivedDeliveries } from './lists/derived-deliveries.ts';
import { createEventStatuses } from './lists/event-statuses.ts';
import { createDeliveryHistory, type DeliveryHistory } from './lists/history.ts';
import { createPendingWork, type PendingWork } from './pending-work.ts';
import type { SendRateModel } from './rate-limit/model.ts';
import { createTakePermit } from './rate-limit/permits.ts';
import { createSendRates } from './rate-limit/send-rates.ts';
import { type AttemptWait, createAttemptWait } from './redeliver/attempt-wait.ts';
import { createRedelivery, type Redelivery } from './redeliver/redelivery.ts';
import { createScheduledDelivery, type ScheduledDeliveryDeps } from './scheduled-delivery.ts';
import { type ClientOptions, createDeliveryClients } from './send/clients.ts';
import { createSend } from './send/send.ts';
import type { Worker } from './worker/worker.ts';

/** How long the lease of an attempt lasts: after that, another process may make a dead worker's attempts. Milliseconds. */
const lease = 4_500;
/** Two renewals may fail before a lease lapses. Milliseconds. */
const renewInterval = 1_250;
/** How long closing waits for pending work. Milliseconds. */
const pendingWorkWait = 1_000;

type Inherited =
  | 'deliveries'
  | 'events'
  | 'outbox'
  | 'clock'
  | 'settleSubscribers'
  | 'forDelivery'
  | 'userAgent'
  | 'fanOutObserver'
  | 'onSwept';

/** Whoever is not given is not told. */
export interface DeliveryServiceDeps extends Pick<ScheduledDeliveryDeps, Inherited>, Partial<AttemptListeners> {
  readonly connection: Connection;
  readonly sendRates: SendRateModel;
  /** The present URL of a webhook; `null` if it is gone. */
  readonly urlOf: (webhookId: string) => Promise<string | null>;
  /** Which addresses may be connected to. */
  readonly clients: ClientOptions;
  readonly options: ScheduledDeliveryDeps['options'] &
    Pick<ResolvedOptions, 'collectionPrefix' | 'attemptTimeout' | 'retentionDays'> &
    Partial<Pick<ResolvedOptions, 'tracing'>>;
}

export interface DeliveryService extends Redelivery {
  /** Await it before anything else. */
  init(): Promise<void>;
  /** Makes the deliveries of events. */
  readonly fanOut: FanOuts;
  /** How long this process holds an event that it fans out. Milliseconds. */
  readonly lease: number;
  /** The states of events, from their deliveries. */
  readonly eventStatuses: EventStatuses;
  readonly history: DeliveryHistory;
  /** What the details of a delivery show beside it. */
  context(userId: string, delivery: ShownDelivery): Promise<DeliveryContext>;
  readonly hasEnded: AttemptWait['hasEnded'];
  /** The worker of this process at this moment. */
  readonly worker: Pick<Worker, 'isLive' | 'isWorking' | 'attempts' | 'sweptAt'>;
  /** What all processes together have to do. */
  backlogSize(): Promise<BacklogSize>;
  /** How long the oldest delivery or event has been due that no process has claimed, in seconds; `null` where none is. */
  oldestDue(): Promise<number | null>;
  /** Deliveries whose next attempt is due later, counted up to 10,000. */
  scheduled(): ReturnType<typeof readScheduled>;
  /** Makes attempts in this process from now on. */
  start(): Promise<void>;
  /** Starts no more attempts, waits for those in flight and gives everything else back. Recoveries can still send. May be called again. */
  stop(): Promise<void>;
  /** Stops, and sends nothing more. At most 35 s; may be called again. */
  close(): Promise<void>;
}

interface CloseDeps {
  readonly worker: Pick<Worker, 'close'>;
  readonly pendingWork: PendingWork;
  readonly closed: AbortController;
  readonly clients: ReturnType<typeof createDeliveryClients>;
}

/** Makes the function that stops all of it, once. */
function createClose({ worker, pendingWork, closed, clients }: CloseDeps): () => Promise<void> {
  async function closeOnce(): Promise<void> {
    try {
      await worker.close();
    } finally {
      await Promise.race([pendingWork.done(), sleep(pendingWorkWait, undefined, { ref: false })]);
      closed.abort();
      await clients.close();
    }
  }
  let closing: Promise<void> | null = null;
  return () => {
    closing ??= closeOnce();
    return closing;
  };
}

function createBacklogReadings({ deliveries, events }: Pick<DeliveryServiceDeps, 'deliveries' | 'events'>) {
  return {
    backlogSize: () => readBacklogSize(deliveries, events),
    oldestDue: () => readOldestDue(deliveries, events),
    scheduled: () => readScheduled(deliveries),
  };
}

/** Joins the parts of deliveries. */
export function createDeliveryService(deps: DeliveryServiceDeps): DeliveryService {
  const {
    deliveries,
    events,
    outbox,
    userAgent,
    options,
    onAttempt = () => {},
    onFailed = () => {},
    onEnded = () => {},
  } = deps;
  const { retryDelays, logger } = options;
  const owner = newId('wrk', Date.now());
  const clients = createDeliveryClients(deps.clients);
  const pendingWork = createPendingWork();
  const closed = new AbortController();
  // every write that is being retried listens
  setMaxListeners(0, closed.signal);
  const jobs = createJobs({
    connection: deps.connection,
    owner,
    collectionPrefix: options.collectionPrefix,
    wake: (ref) => worker.wake(ref),
    logger,
  });
  const { send, hasEnded } = createAttemptWait(
    createSend(clients, options.attemptTimeout, options.tracing?.propagateToReceivers),
  );
  const derivedDeliveries = createDerivedDeliveries(deliveries, events, retryDelays);
  const history = createDeliveryHistory(deliveries, derivedDeliveries);
  const sendRates = createSendRates({
    takePermit: createTakePermit(deps.sendRates),
    onLimited: (webhook, pause) => worker.onLimited(webhook, pause),
  });
  const shared = {
    ...deps,
    sendRates,
    owner,
    lease,
    renewInterval,
    retention: options.retentionDays * 86_400_000,
    send,
    take: createClaimEvents(events, deps.clock),
    pendingWork,
    onAttempt,
    onFailed,
    onEnded,
    // the delivery needs no job any more
    onDelivered: (deliveryId: string) => pendingWork.add(jobs.remove({ deliveryId })),
    closed: closed.signal,
  };
  const { fanOut, attempts, worker } = createScheduledDelivery({ ...shared, jobs });
  const redelivery = createRedelivery({
    ...shared,
    ...options,
    hasEnded,
    body: outbox.body,
    attempts,
    fanOut,
    history,
    derivedDeliveries,
  });

  const close = createClose({ worker, pendingWork, closed, clients });

  return {
    init: jobs.init,
    fanOut,
    lease,
    eventStatuses: createEventStatuses(deliveries, events),
    history,
    async context(userId, { webhookId, eventId }) {
      const [url, body] = await Promise.all([deps.urlOf(webhookId), outbox.body({ _id: eventId, userId })]);
      return { url, body, userAgent, retryDelays };
    },
    ...redelivery,
    hasEnded,
    worker,
    ...createBacklogReadings(deps),
    start: worker.start,
    stop: worker.close,
    close,
  };
}
