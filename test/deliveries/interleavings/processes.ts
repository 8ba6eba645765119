import type { ServerResponse } from 'node:http';
import type { Connection } from 'mongoose';
import { Attempts, type FirstAttempt, type ReadyAttempt } from '../../../src/deliveries/attempt.ts';
import { Claims } from '../../../src/deliveries/claims.ts';
import { createShortReads, FanOut } from '../../../src/deliveries/fan-out.ts';
import {
  type AttemptKey,
  type Claim,
  createDeliveryModel,
  type DeliveryDocument,
} from '../../../src/deliveries/model.ts';
import { createDeliveryClient, createSend } from '../../../src/deliveries/send.ts';
import { catalogueOf } from '../../../src/events/catalogue.ts';
import { createEventModel, createOwnerModel } from '../../../src/events/model.ts';
import { createClaimEvents, createOutbox, createRenewEvents, type StoredEvent } from '../../../src/events/outbox.ts';
import { createEventService } from '../../../src/events/service.ts';
import { createDatabaseClock } from '../../../src/mongo/clock.ts';
import { durableCollection } from '../../../src/mongo/collection.ts';
import { type Held, Leases, type Renewal } from '../../../src/mongo/lease.ts';
import { withTimeout } from '../../../src/mongo/periodic.ts';
import { PendingWork } from '../../../src/pending-work.ts';
import { settled } from '../../events/harness.ts';
import { silentLogger } from '../../support/logger.ts';
import { spec } from '../../support/openapi.ts';
import { eventually } from '../../support/until.ts';
import { noListeners } from '../claims-of.ts';
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
const catalogue = catalogueOf(spec);

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

/** A lease that a process renews on the claim of an attempt. */
interface HeldClaim extends Held {
  readonly claim?: Claim;
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
  const client = createDeliveryClient({ allowAddress: (address) => address === '127.0.0.1' });
  const send = createSend(client, long);
  const made: LiveAttempt[] = [];
  const scheduled: Scheduled[] = [];
  const looks: string[] = [];
  const jobs = {
    shortestWait: 0,
    async schedule({ deliveryId: id, attempt }: AttemptKey) {
      scheduled.push({ id, attempt });
    },
  };
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

  const claimRenewals = new Map<number, ReturnType<typeof renewalsOnDemand>>();
  const renewLeases = Leases.prototype.renew;
  const renewalsOnDemand = () =>
    onDemand(([leases, held, renewal]: [Leases<{ _id: string }>, readonly HeldClaim[], Renewal | undefined]) =>
      renewLeases.call(leases, held, renewal),
    );

  /** Leases of attempts are renewed when a test asks for it. */
  Leases.prototype.renew = async function renew<H extends HeldClaim>(held: readonly H[], renewal?: Renewal) {
    const [{ claim } = { claim: undefined }] = held;
    if (!claim) return renewLeases.call(this, held, renewal) as Promise<readonly H[]>;
    const owner = made.find((attempt) => attempt.claim === claim);
    const renewals = owner && claimRenewals.get(owner.process);
    if (!renewals) throw new Error('not now');
    return renewals.renew([this, held, renewal]) as Promise<readonly H[]>;
  };

  function createProcess(number: number) {
    let onFailedWrite = () => {};
    class NotedClaims extends Claims {
      override async claim(attempt: AttemptKey) {
        const claim = await super.claim(attempt);
        if (claim) note(claim);
        return claim;
      }
      override async record(...given: Parameters<Claims['record']>) {
        const [recorded] = await Promise.all([super.record(...given), onOutcome()]);
        return recorded;
      }
      override first(...given: Parameters<Claims['first']>) {
        const first = super.first(...given);
        written.add(first.whenStored);
        return first;
      }
    }
    const claims = new NotedClaims({
      ...noListeners,
      deliveries: deliveryModel,
      clock,
      concurrency: 100,
      owner: `process ${number}`,
      lease: long,
      retention: long,
      renewInterval,
      logger: { ...silentLogger, warn: (message) => message === 'a write is tried again' && onFailedWrite() },
      get storeAfter() {
        return storeAfter;
      },
    });
    const renewals = renewalsOnDemand();
    claimRenewals.set(number, renewals);
    const attempts = new Attempts({
      sendRates: noRateLimits,
      claims,
      send,
      target: webhooks.forDelivery,
      body: outbox.body,
      retryDelays,
      userAgent: 'express-model-gateway/test',
      jobs,
      pendingWork: new PendingWork(),
      logger: silentLogger,
      get closed() {
        return isClosing ? AbortSignal.abort() : open;
      },
    });
    let present: Circumstances = { isWorking: true, hasRoom: true };

    function note(claim: Claim): LiveAttempt {
      const attempt: LiveAttempt = { serial: made.length, process: number, claim, ready: null };
      made.push(attempt);
      return attempt;
    }

    async function prepareFirst(first: FirstAttempt): Promise<void> {
      const attempt = note(first.claim);
      attempt.ready = (await attempts.prepareFirst(first)).ready;
    }

    const renewEvents = createRenewEvents(eventModel);
    const eventRenewals = onDemand((held: readonly StoredEvent[]) => renewEvents(held, long));
    const preparing: Promise<void>[] = [];
    const fanOut = new FanOut({
      outbox,
      claims,
      scheduler: {
        get isWorking() {
          return present.isWorking;
        },
        first(_, begin) {
          const first = present.hasRoom && begin();
          if (!first) return 'no room';
          preparing.push(prepareFirst(first));
          return 'begun';
        },
        look: ({ webhookId }) => void looks.push(webhookId),
      },
      async renewEvents(held) {
        await eventRenewals.renew(held as StoredEvent[]);
        // a renewal that succeeds is followed by none for a long time
        throw new Error('its answer is lost');
      },
      retryDelays,
      // so long that each lease is old enough to be renewed
      lease: 4 * long,
      pendingWork: new PendingWork(),
      logger: silentLogger,
    });
    const { room } = fanOut;
    const { publish } = createEventService({
      connection,
      outbox,
      owners: createOwnerModel(connection, prefix),
      catalogue,
      webhooks,
      settleSubscribers: settled,
      fanOut: {
        prepare() {
          const prepared = fanOut.prepare();
          return prepared && { ...prepared, lease: long };
        },
        wake() {},
      },
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
        const target = createShortReads(webhooks.forDelivery);
        for (const { event, lease } of taken) if (lease) await fanOut.fanOut({ event, lease }, target);
        await Promise.all(preparing.splice(0));
        return taken.map(({ event }) => event._id);
      },
      /** Claims an attempt; resolves with what is to be sent. */
      async claim({ _id: deliveryId, attempt }: Pick<DeliveryDocument, '_id' | 'attempt'>) {
        return (await attempts.prepare({ deliveryId, attempt }).prepared).ready;
      },
      /** Takes an event and stops right after that; resolves with the events that it has taken. */
      takeAndStop: async (id: string) => (await take([keyOf(id)], long)).map(({ event }) => event._id),
      /** Resolves when a first write has failed, which is tried again. */
      firstWriteFails: () =>
        new Promise<void>((resolve) => {
          onFailedWrite = resolve;
        }),
      /** Resolves with the claims that were to be renewed, and those that were. */
      async renew() {
        const { asked, renewed } = await renewals.next();
        const claimsOf = (held: readonly HeldClaim[]) => held.flatMap(({ claim }) => claim ?? []);
        return { asked: claimsOf(asked[1]), renewed: claimsOf(renewed) };
      },
      renewEvents: eventRenewals.next,
      /** Resolves when it holds no events any more. */
      idle: () =>
        eventually(
          () => fanOut.room,
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
    /** The webhook of every delivery that a process has stored for workers to claim. */
    looks,
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
      Leases.prototype.renew = renewLeases;
      await mendWrites();
      await client.close();
    },
  };
}

export type Processes = ReturnType<typeof createProcesses>;
