import type { ServerResponse } from 'node:http';
import type { Connection } from 'mongoose';
import { durableCollection } from '../../src/collection.ts';
import { createDatabaseClock } from '../../src/database-clock.ts';
import { createAttempts, type FirstAttempt, readReceiver } from '../../src/deliveries/attempt.ts';
import { type Claim, createClaims } from '../../src/deliveries/claims.ts';
import { createDeliveryClients } from '../../src/deliveries/clients.ts';
import { createFanOut } from '../../src/deliveries/fan-out.ts';
import { createFirstWrites } from '../../src/deliveries/first-writes.ts';
import { createHeldEvents } from '../../src/deliveries/held-events.ts';
import { createRecordLate, withLateSuccess } from '../../src/deliveries/late-success.ts';
import { createLeases } from '../../src/deliveries/leases.ts';
import { createDeliveryModel, type DeliveryDocument } from '../../src/deliveries/model.ts';
import { createSend } from '../../src/deliveries/send.ts';
import type { ReadyAttempt } from '../../src/deliveries/webhook-queue.ts';
import { createCatalogue } from '../../src/events/catalogue.ts';
import { createEventModel, createOwnerModel } from '../../src/events/model.ts';
import { createOutbox } from '../../src/events/outbox.ts';
import { createEventService } from '../../src/events/service.ts';
import { createRenewEvents, createTakeEvents } from '../../src/events/take-events.ts';
import { loadSpec } from '../../src/spec.ts';
import { type FakeWebhooks, payment, quiet } from './gateway.ts';
import type { TestReceiver } from './receiver.ts';

/** How a process does what it does next. */
export interface Circumstances {
  /** Whether it makes attempts. */
  readonly isWorking: boolean;
  /** Whether it has room for first attempts. */
  readonly hasRoom: boolean;
}

/** An attempt that a process believes to be its own. */
export interface LiveAttempt {
  readonly serial: number;
  readonly process: number;
  readonly claim: Claim;
  /** `null` when there was nothing to send. */
  ready: ReadyAttempt | null;
  /** Of a request that the receiver has; resolves when what came of it is recorded. */
  answer?: (status: number) => Promise<void>;
}

/** Longer than any test. Milliseconds. */
const long = 600_000;
const retryDelays = [long, long, long, long, long];
const catalogue = createCatalogue(loadSpec());

/** Processes that share a database, and do one thing at a time when they are told to. */
export function createProcesses(
  connection: Connection,
  prefix: string,
  webhooks: FakeWebhooks,
  receiver: Pick<TestReceiver, 'answers'>,
) {
  const deliveryModel = createDeliveryModel(connection, prefix);
  const eventModel = createEventModel(connection, prefix);
  const deliveries = durableCollection(deliveryModel);
  const events = durableCollection(eventModel);
  const clock = createDatabaseClock(connection);
  const outbox = createOutbox(eventModel, clock);
  const clients = createDeliveryClients({ allowAddress: (address) => address === '127.0.0.1' });
  const send = createSend(clients, long);
  const made: LiveAttempt[] = [];
  /** Of first attempts: resolves when its process has made the first write of the delivery, or found one. */
  const written = new Set<Promise<void>>();
  let storeAfter = Number.POSITIVE_INFINITY;

  function createProcess(number: number) {
    const claiming = { deliveries: deliveryModel, owner: `process ${number}`, lease: long, retention: long };
    const fenced = createClaims(claiming);
    const leases = createLeases({ renew: fenced.renew, lease: long, interval: long, logger: quiet });
    const firstWrites = createFirstWrites({
      ...claiming,
      claims: fenced,
      leases,
      clock,
      logger: quiet,
      get storeAfter() {
        return storeAfter;
      },
    });
    const claims = withLateSuccess(firstWrites.claims, createRecordLate(claiming), () => {});
    const attempts = createAttempts({
      claims: {
        ...claims,
        async claim(deliveryId, attempt) {
          const claim = await claims.claim(deliveryId, attempt);
          if (claim) note(claim);
          return claim;
        },
      },
      leases,
      send,
      forDelivery: webhooks.forDelivery,
      body: outbox.body,
      retryDelays,
      userAgent: 'express-model-gateway/test',
      ring() {},
      keep() {},
      logger: quiet,
    });
    let present: Circumstances = { isWorking: true, hasRoom: true };
    /** What is prepared or marked. */
    const under = new Set<Promise<unknown>>();
    const later = (work: Promise<unknown>) => void under.add(work.finally(() => under.delete(work)));

    function note(claim: Claim): LiveAttempt {
      const attempt = { serial: made.length, process: number, claim, ready: null };
      made.push(attempt);
      return attempt;
    }

    async function prepareFirst(first: FirstAttempt): Promise<void> {
      const attempt = note(first.claim);
      attempt.ready = (await attempts.prepareFirst(first)) as null;
    }

    const preparing: Promise<void>[] = [];
    const fanOut = createFanOut({
      outbox,
      firstWrites: {
        ...firstWrites,
        begin(...given) {
          const begun = firstWrites.begin(...given);
          written.add(begun.written);
          return begun;
        },
      },
      heldEvents: createHeldEvents({ renew: createRenewEvents(eventModel), lease: long, logger: quiet }),
      retryDelays,
      lease: long,
      isWorking: () => present.isWorking,
      hasRoom: () => present.hasRoom,
      handOver(first) {
        preparing.push(prepareFirst(first));
        return true;
      },
      waiting: { has: () => false, wait: () => null },
      receiver: (webhookId, event) => readReceiver(webhooks.forDelivery, webhookId, event),
      ring() {},
      wake() {},
      later,
      logger: quiet,
    });
    const { publish } = createEventService({
      connection,
      events: eventModel,
      owners: createOwnerModel(connection, prefix),
      catalogue,
      subscribers: webhooks.subscribers,
      fanOut,
      logger: quiet,
    });
    const take = createTakeEvents(eventModel, clock);

    return {
      /** Resolves with the event. */
      async publish(circumstances: Circumstances) {
        present = circumstances;
        const { id } = await publish(payment);
        await Promise.all(preparing.splice(0));
        return events.findOne({ _id: id });
      },
      /** Resolves with the events that it has taken. */
      async sweep(ids: readonly string[], circumstances: Circumstances) {
        present = circumstances;
        const taken = await take(ids, long);
        for (const { event, lease } of taken) if (lease) await fanOut.fanOut({ event, lease });
        await Promise.all(preparing.splice(0));
        return taken.map(({ event }) => event._id);
      },
      /** Claims an attempt; resolves with what is to be sent. */
      async claim({ _id: deliveryId, webhookId, userId, attempt }: DeliveryDocument) {
        return attempts.prepare({ deliveryId, webhookId, userId, attempt });
      },
      renew: fenced.renew,
    };
  }

  return {
    deliveries,
    events,
    /** Every attempt that was begun, by its serial. */
    made,
    processes: [0, 1, 2, 3].map(createProcess),
    /** Sends what is ready; resolves when the receiver has it. */
    async send(attempt: LiveAttempt): Promise<void> {
      const response = new Promise<ServerResponse>((resolve) => receiver.answers(resolve));
      const sending = attempt.ready?.send();
      if (!sending) throw new Error('there is nothing to send');
      const missed = sending.then(() => Promise.reject(new Error('nothing was sent')));
      missed.catch(() => {});
      const res = await Promise.race([response, missed]);
      attempt.answer = async (status) => {
        res.writeHead(status).end();
        await (await sending)();
      };
    },
    /** First attempts take so long that each is stored as claimed. */
    async storeSlow(): Promise<void> {
      storeAfter = 0;
      await Promise.allSettled(written);
      storeAfter = Number.POSITIVE_INFINITY;
    },
    close: () => clients.close(),
  };
}

export type Processes = ReturnType<typeof createProcesses>;
