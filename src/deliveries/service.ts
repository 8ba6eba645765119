import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mongoose';
import { durableCollection, type EventModel } from '../events/model.ts';
import { createOutbox, type StoredEvent } from '../events/outbox.ts';
import { newId } from '../ids.ts';
import type { ResolvedOptions } from '../options.ts';
import { createMakeAttempt, type Receiver } from './attempt.ts';
import { createBackground } from './background.ts';
import { createClaims } from './claims.ts';
import { type ClientOptions, createDeliveryClients } from './clients.ts';
import { eventState } from './event-state.ts';
import { createFanOut } from './fan-out.ts';
import { createJobs } from './jobs.ts';
import { createLeases } from './leases.ts';
import type { DeliveryDocument, DeliveryModel, DeliveryState } from './model.ts';
import { createRetention } from './retention.ts';
import { createSend } from './send.ts';
import { createFindClaimable } from './sweep.ts';
import { createWorker } from './worker.ts';

/** A dead worker's attempts are free after this long. Milliseconds. */
const lease = 9_000;
/** Milliseconds. Two renewals may fail before a lease lapses. */
const renewInterval = 3_000;
const day = 86_400_000;

export interface DeliveryServiceDeps {
  readonly connection: Connection;
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  /** The webhook as it is now, its secret opened; `null` when it is gone. */
  readonly forDelivery: (webhookId: string) => Promise<Receiver | null>;
  /** Which addresses may be connected to. */
  readonly clients: ClientOptions;
  readonly options: Pick<
    ResolvedOptions,
    | 'collectionPrefix'
    | 'retryDelays'
    | 'attemptTimeout'
    | 'concurrency'
    | 'retentionDays'
    | 'sweepInterval'
    | 'fanOutInterval'
    | 'logger'
  >;
  /** `express-model-gateway/<version>`. */
  readonly userAgent: string;
}

export interface DeliveryService {
  /** Builds the indexes. To be awaited before anything else. */
  init(): Promise<void>;
  /** Makes the deliveries of an event and rings for their first attempts. Doing it twice does nothing the second time. */
  fanOut(event: StoredEvent): Promise<void>;
  /** The deliveries of an event, by id. */
  ofEvent(eventId: string): Promise<DeliveryDocument[]>;
  /** How the event stands as a whole: failed as soon as one delivery has failed. */
  stateOfEvent(eventId: string): Promise<DeliveryState>;
  /** Makes attempts in this process from now on. */
  start(): Promise<void>;
  /** Starts no more attempts, waits for those in flight, gives everything back. At most 35 s; may be called again. */
  close(): Promise<void>;
}

/** Everything about deliveries, joined. */
export function createDeliveryService(deps: DeliveryServiceDeps): DeliveryService {
  const { connection, deliveries, forDelivery, userAgent, options } = deps;
  const { retryDelays, concurrency, logger } = options;
  const owner = newId('wrk', Date.now());
  const outbox = createOutbox(deps.events);
  const clients = createDeliveryClients(deps.clients);
  const background = createBackground();
  const retention = options.retentionDays * day;
  const claims = createClaims({ deliveries, owner, lease, retention });

  const jobs = createJobs({
    connection,
    owner,
    collection: `${options.collectionPrefix}jobs`,
    onBell: (bell) => worker.onBell(bell),
    logger,
  });
  const fanOut = createFanOut({
    deliveries,
    outbox,
    retryDelays,
    ring: (bells) => background.add(jobs.schedule(bells, 0)),
  });
  const makeAttempt = createMakeAttempt({
    claims,
    leases: createLeases(claims, renewInterval, logger),
    send: createSend(clients, options.attemptTimeout),
    forDelivery,
    body: outbox.body,
    sendWithin: lease - renewInterval,
    retryDelays,
    userAgent,
    logger,
  });
  const worker = createWorker({
    concurrency,
    sweepInterval: options.sweepInterval,
    fanOutInterval: options.fanOutInterval,
    makeAttempt,
    claims,
    findClaimable: createFindClaimable(deliveries),
    fanOut,
    outbox,
    expireEvents: createRetention(deliveries, outbox, retention),
    jobs,
    background,
    logger,
  });

  async function ofEvent(eventId: string): Promise<DeliveryDocument[]> {
    return durableCollection(deliveries).find({ eventId }).sort({ _id: 1 }).toArray();
  }

  async function close(): Promise<void> {
    await worker.close();
    await Promise.race([background.done(), sleep(1_000, undefined, { ref: false })]);
    await clients.close();
  }
  let closing: Promise<void> | null = null;

  return {
    async init() {
      await Promise.all([deliveries.createIndexes(), jobs.init()]);
    },
    fanOut,
    ofEvent,
    stateOfEvent: async (eventId) => eventState(await ofEvent(eventId)),
    start: worker.start,
    close() {
      closing ??= close();
      return closing;
    },
  };
}
