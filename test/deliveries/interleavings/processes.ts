import type { ServerResponse } from 'node:http';
import type { Connection } from 'mongoose';
import { createAttempts, type FirstAttempt, type ReadyAttempt } from '../../../src/deliveries/attempt.ts';
import { type Claim, createClaims, createRecordLate, withLateSuccess } from '../../../src/deliveries/claims.ts';
import { createFanOut, createHeldEvents } from '../../../src/deliveries/fan-out.ts';
import { createFirstWrites } from '../../../src/deliveries/fan-out/first-writes.ts';
import { type AttemptRef, createDeliveryModel, type DeliveryDocument } from '../../../src/deliveries/model.ts';
import { readTarget } from '../../../src/deliveries/request.ts';
import { createDeliveryClients, createSend } from '../../../src/deliveries/send.ts';
import { createCatalogue } from '../../../src/events/catalogue/catalogue-from-openapi.ts';
import { createEventModel, createOwnerModel } from '../../../src/events/model.ts';
import { createEventService } from '../../../src/events/service.ts';
import { createClaimEvents, createRenewEvents } from '../../../src/events/store/claim-events.ts';
import { createOutbox } from '../../../src/events/store/outbox.ts';
import type { StoredEvent } from '../../../src/events/store/stored-event.ts';
import { createDatabaseClock } from '../../../src/mongo/clock.ts';
import { durableCollection } from '../../../src/mongo/collection.ts';
import { createLeaseRenewal } from '../../../src/mongo/lease.ts';
import { withTimeout } from '../../../src/mongo/with-timeout.ts';
import { loadSpec } from '../../../src/openapi/spec.ts';
import { settled } from '../../events/harness.ts';
import { silentLogger } from '../../support/logger.ts';
import { eventually } from '../../support/until.ts';
import { type FakeWebhooks, noRateLimits, payment } from '../delivery-services.ts';
import type { TestReceiver } from '../receiver.ts';
import type { Scheduled } from './model.ts';

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
/** Of a process that does not close. */
const open = new AbortController().signal;
const retryDelays = [long, long, long, long, long];
/** Between the renewals that a process tries. Milliseconds. */
const renewInterval = 10;
/** How long a test waits for a renewal. Milliseconds. */
const longestRenewal = 10_000;
const catalogue = createCatalogue(loadSpec());

/** How writes fail: they are done, but not confirmed, or not done. */
const faults = {
  unconfirmed: { writeConcernError: { code: 64, errmsg: 'waiting for replication timed out' } },
  refused: { errorCode: 11_601 },
};
export type Fault = keyof typeof faults;

/** Renewals by the timer of a process. One succeeds when a test asks for it; all others fail. */
function onDemand<Asked, Renewed>(renew: (asked: Asked) => Promise<Renewed>) {
  let tell: ((made: { readonly asked: Asked; readonly renewed: Renewed }) => void) | null = null;
  return {
    async renew(asked: Asked): Promise<Renewed> {
      const told = tell;
      if (!told) throw new Error('not now');
      tell = null;
      const renewed = await renew(asked);
      told({ asked, renewed });
      return renewed;
    },
    /** Resolves, when it is made, with what was to be renewed and what the renewal has told. */
    next() {
      const made = new Promise<{ readonly asked: Asked; readonly renewed: Renewed }>((resolve) => {
        tell = resolve;
      });
      return withTimeout(made, longestRenewal).catch(() => {
        throw new Error('nothing is renewed');
      });
    },
  };
}

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
  const admin = connection.getClient().db('admin');
  const clock = createDatabaseClock(connection);
  const outbox = createOutbox(eventModel, clock);
  const clients = createDeliveryClients({ allowAddress: (address) => address === '127.0.0.1' });
  const send = createSend(clients, long);
  const made: LiveAttempt[] = [];
  const scheduled: Scheduled[] = [];
  const schedule = ({ deliveryId: id, attempt }: AttemptRef) => void scheduled.push({ id, attempt });
  /** Of first attempts: resolves when its process has made the first write of the delivery, or found one. */
  const written = new Set<Promise<void>>();
  let storeAfter = Number.POSITIVE_INFINITY;
  /** Called when the outcome of an attempt is about to be stored. */
  let onOutcome = async () => {};
  /** Whether what cannot be stored is given up, as by a process that closes. */
  let isClosing = false;

  /** Has writes of deliveries fail from now on. */
  async function breakWrites(fault: Fault, failCommands: readonly string[]): Promise<void> {
    const data = { namespace: `${connection.name}.${deliveries.collectionName}`, failCommands, ...faults[fault] };
    await admin.command({ configureFailPoint: 'failCommand', mode: 'alwaysOn', data });
  }

  async function mendWrites(): Promise<void> {
    onOutcome = async () => {};
    await admin.command({ configureFailPoint: 'failCommand', mode: 'off' });
  }

  /** Resolves when each delivery whose first attempt has begun is stored: as claimed, where it was not yet. */
  async function allWritten(): Promise<void> {
    storeAfter = 0;
    await Promise.allSettled(written);
    storeAfter = Number.POSITIVE_INFINITY;
  }

  function createProcess(number: number) {
    const claiming = { deliveries: deliveryModel, owner: `process ${number}`, lease: long, retention: long };
    const fenced = createClaims(claiming);
    const claimRenewals = onDemand(fenced.renew);
    const leases = createLeaseRenewal({
      renew: claimRenewals.renew,
      lease: long,
      interval: renewInterval,
      logger: silentLogger,
    });
    let onFailedWrite = () => {};
    const firstWrites = createFirstWrites({
      ...claiming,
      claims: fenced,
      leases,
      clock,
      logger: { ...silentLogger, warn: () => onFailedWrite() },
      get storeAfter() {
        return storeAfter;
      },
    });
    const claims = withLateSuccess(firstWrites.claims, createRecordLate(claiming), () => {});
    const attempts = createAttempts({
      sendRates: noRateLimits,
      claims: {
        ...claims,
        async claim(deliveryId, attempt) {
          const claim = await claims.claim(deliveryId, attempt);
          if (claim) note(claim);
          return claim;
        },
        async finish(...given) {
          const [isRecorded] = await Promise.all([claims.finish(...given), onOutcome()]);
          return isRecorded;
        },
      },
      leases,
      send,
      forDelivery: webhooks.forDelivery,
      body: outbox.body,
      retryDelays,
      userAgent: 'express-model-gateway/test',
      schedule,
      scheduleWaiting() {},
      logger: silentLogger,
      get closed() {
        return isClosing ? AbortSignal.abort() : open;
      },
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

    const renewEvents = createRenewEvents(eventModel);
    const eventRenewals = onDemand((held: readonly StoredEvent[]) => renewEvents(held, long));
    const heldEvents = createHeldEvents({
      // so long that each lease is old enough to be renewed
      lease: 4 * long,
      lookInterval: renewInterval,
      async renew(held) {
        await eventRenewals.renew(held as StoredEvent[]);
        // a renewal that succeeds is followed by none for a long time
        throw new Error('its answer is lost');
      },
      logger: silentLogger,
    });
    const { room } = heldEvents;
    const preparing: Promise<void>[] = [];
    const fanOut = createFanOut({
      outbox,
      firstWrites: {
        ...firstWrites,
        begin(...given) {
          const begun = firstWrites.begin(...given);
          written.add(begun.whenStored);
          return begun;
        },
      },
      heldEvents,
      retryDelays,
      lease: long,
      isWorking: () => present.isWorking,
      hasRoom: () => present.hasRoom,
      handOver(first) {
        preparing.push(prepareFirst(first));
        return true;
      },
      waiting: { has: () => false, wait: () => null },
      receiver: (webhookId, event) => readTarget(webhooks.forDelivery, webhookId, event),
      enqueue: (refs) => refs.forEach(schedule),
      wake() {},
      later,
      logger: silentLogger,
    });
    const { publish } = createEventService({
      connection,
      outbox,
      owners: createOwnerModel(connection, prefix),
      catalogue,
      subscribers: webhooks.subscribers,
      settleSubscribers: settled,
      fanOut,
      logger: silentLogger,
    });
    const take = createClaimEvents(eventModel, clock);
    const keyOf = (_id: string) => ({ _id, userId: payment.userId });

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
        const taken = await take(ids.map(keyOf), long);
        for (const { event, lease } of taken) if (lease) await fanOut.fanOut({ event, lease });
        await Promise.all(preparing.splice(0));
        return taken.map(({ event }) => event._id);
      },
      /** Claims an attempt; resolves with what is to be sent. */
      async claim({ _id: deliveryId, webhookId, userId, attempt }: DeliveryDocument) {
        return attempts.prepare({ deliveryId, webhookId, userId, attempt });
      },
      /** Takes an event and stops right after that; resolves with the events that it has taken. */
      takeAndStop: async (id: string) => (await take([keyOf(id)], long)).map(({ event }) => event._id),
      /** Resolves when a first write has failed, which is tried again. */
      firstWriteFails: () =>
        new Promise<void>((resolve) => {
          onFailedWrite = resolve;
        }),
      renew: claimRenewals.next,
      renewEvents: eventRenewals.next,
      /** Resolves when it holds no events any more. */
      idle: () =>
        eventually(
          async () => heldEvents.room,
          (now) => now === room,
        ),
    };
  }

  const processes = [0, 1, 2, 3].map(createProcess);

  return {
    deliveries,
    events,
    /** Every attempt that was begun, by its serial. */
    made,
    /** Every attempt that a process has scheduled. */
    scheduled,
    processes,
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
    storeSlow: allWritten,
    /** The same, but storing them fails, and is tried again only when the receiver has answered one of them. */
    async answerBetweenTries({ process, answer }: LiveAttempt, status: number, fault: Fault): Promise<void> {
      await breakWrites(fault, ['insert']);
      onOutcome = mendWrites;
      const failed = processes[process]?.firstWriteFails();
      const all = allWritten();
      await failed;
      await answer?.(status);
      await all;
    },
    /** The receiver answers, and the process closes before it can store that. */
    async answerInVain({ answer }: LiveAttempt, status: number): Promise<void> {
      await breakWrites('refused', ['insert', 'update']);
      isClosing = true;
      await answer?.(status);
      isClosing = false;
      await mendWrites();
    },
    async close(): Promise<void> {
      await mendWrites();
      await clients.close();
    },
  };
}

export type Processes = ReturnType<typeof createProcesses>;
