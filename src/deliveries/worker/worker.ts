import { setTimeout as sleep } from 'node:timers/promises';
import { createPeriodic } from '../../mongo/periodic.ts';
import type { Logger } from '../../options/options.ts';
import type { Attempts, FirstAttempt } from '../attempt/attempt.ts';
import type { AttemptRef, ScheduledRef, WebhookRef } from '../attempt/attempt-ref.ts';
import { createFanOutSweep, type FanOutSweepDeps } from '../fan-out/fan-out-sweep.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { createBacklog } from './backlog.ts';
import { createDispatcher } from './dispatcher.ts';
import type { Due } from './due.ts';
import { createRoomQueue, type RoomQueue } from './room-queue.ts';
import { createSweepCursor } from './sweep-cursor.ts';
import type { Watch } from './watch.ts';

/** How long a claimed attempt may wait for a place, and a first one for room before that: both together far less than a lease. Milliseconds. */
const maxWait = 1_000;
/** First attempts that wait for room, in multiples of attempts under way. */
const waitingLimit = 5;
/** Deliveries that one look at what is due goes through. */
const lookBatch = 1_000;
/** How often it is looked for events that have outlived the retention. Milliseconds. */
const retentionInterval = 3_600_000;
/** The longest that this may take. Milliseconds. */
const longestRetention = 600_000;
/** The longest that closing waits for attempts in flight: their deadline, and the time to record them. Milliseconds. */
const closeDeadline = 33_000;

/** Durations are milliseconds. */
export interface WorkerDeps {
  readonly concurrency: number;
  readonly concurrencyPerAccount: number;
  readonly concurrencyPerWebhook: number;
  readonly sweepInterval: number;
  readonly attempts: Attempts;
  readonly due: Due;
  /** Hear of deliveries and events sooner than a sweep finds them. */
  readonly watches: readonly Watch[];
  readonly fanOuts: Omit<FanOutSweepDeps, 'wanted' | 'logger'>;
  readonly expireEvents: () => Promise<void>;
  readonly jobs: Jobs;
  readonly logger: Logger;
}

/** Makes attempts in this process. */
export interface Worker {
  /** A job is due. */
  wake(ref: ScheduledRef): void;
  /** Something of this webhook is due. */
  onDue(webhook: WebhookRef): void;
  /** A stored event waits for a process that fans it out. */
  onEvent(): void;
  /** Whether attempts are made here. */
  readonly isWorking: boolean;
  /** Whether a first attempt of this webhook would be made at once: there is room, and nothing is due longer. */
  hasRoom(webhook: WebhookRef): boolean;
  /** First attempts for which there was no room. */
  readonly waiting: Pick<RoomQueue, 'has' | 'wait'>;
  /** These are due, and there was no room for them here: they begin as soon as there is. */
  enqueue(refs: readonly AttemptRef[]): void;
  /** Makes it, to be called where there was room; `false` where there is none. */
  handOver(first: FirstAttempt): boolean;
  start(): Promise<void>;
  /** May be called again. */
  close(): Promise<void>;
}

/** Joins what starts attempts (publishing here, jobs and sweeps) with what bounds them. */
export function createWorker(deps: WorkerDeps): Worker {
  const { attempts, due, jobs, logger } = deps;
  let started = false;
  const cursor = createSweepCursor();

  /** An attempt that is claimed needs no job any more. */
  async function claim(ref: AttemptRef): Promise<boolean> {
    const claimed = (await dispatcher.offer(ref, attempts.prepare)) ?? false;
    if (claimed) void jobs.remove(ref);
    return claimed;
  }

  const dispatcher = createDispatcher({
    concurrency: deps.concurrency,
    perAccount: deps.concurrencyPerAccount,
    perWebhook: deps.concurrencyPerWebhook,
    maxWait,
    onRoom(webhook) {
      waiting.draw(webhook.webhookId);
      backlog.draw(webhook);
    },
    onRoomInAll() {
      backlog.drawOthers();
      if (fanOuts.mayGoOn) sweep.hurry();
    },
  });
  const waiting = createRoomQueue({
    limit: deps.concurrency * waitingLimit,
    maxWait,
    // what is stored already comes before
    mayWait: (webhook) => started && dispatcher.holds(webhook) && !backlog.includes(webhook.webhookId),
  });
  const fanOuts = createFanOutSweep({ ...deps.fanOuts, wanted: wantedOfEvents, logger });
  const backlog = createBacklog({
    due,
    wanted: dispatcher.wanted,
    wantedOf: dispatcher.wantedOf,
    wantedInAll: dispatcher.wantedInAll,
    claim,
    onError: (error) => logger.warn('what is due was not claimed; the next sweep will', { reason: String(error) }),
  });

  /**
   * Whether what is due already comes before a new delivery. It is looked for when less than half of what may be claimed ahead is
   * held, so new deliveries may not hold more than that as long as anything waits.
   */
  function dueComesFirst(webhook: WebhookRef): boolean {
    if (backlog.isEmpty()) return false;
    if (backlog.isBehind(webhook.webhookId)) return true;
    return (
      dispatcher.wanted(webhook) === 0 || dispatcher.wantedOf(webhook.userId) === 0 || dispatcher.wantedInAll() === 0
    );
  }

  /** How many more first attempts are wanted of events: as many as there is room for, as soon as few wait for it. */
  function wantedOfEvents(): number {
    const wanted = dispatcher.wantedInAll();
    return waiting.size < wanted / 2 ? wanted - waiting.size : 0;
  }

  /** All that is due, if it is not too much; else page after page, so that no look costs more for a long backlog. */
  async function lookAround(): Promise<void> {
    const { webhookIds, next, events } = await due.look(cursor.begin(), lookBatch, fanOuts.page());
    cursor.reached(next);
    for (const webhookId of webhookIds) backlog.add(webhookId);
    backlog.resume();
    const hasMoreEvents = await fanOuts.take(events);
    if (next || hasMoreEvents) sweep.hurry();
  }

  const sweep = createPeriodic({ name: 'the sweep', task: lookAround, interval: deps.sweepInterval, logger });
  const retention = createPeriodic({
    name: 'expiring events',
    task: deps.expireEvents,
    interval: retentionInterval,
    longestRun: longestRetention,
    logger,
  });
  const periodics = [sweep, retention];

  async function close(): Promise<void> {
    started = false;
    waiting.close();
    await Promise.all([
      jobs.stop(),
      backlog.close(),
      ...deps.watches.map((watch) => watch.close()),
      ...periodics.map((periodic) => periodic.stop()),
    ]);
    await Promise.race([dispatcher.close(), sleep(closeDeadline, undefined, { ref: false })]);
  }
  let closing: Promise<void> | null = null;

  return {
    wake(scheduled) {
      const { webhookId, userId } = scheduled;
      if (userId === undefined) return backlog.add(webhookId);
      const ref = { ...scheduled, userId };
      if (dispatcher.offer(ref, attempts.prepare) !== null) return;
      backlog.add(webhookId, userId);
      jobs.scheduleWaiting([ref]);
    },
    onDue({ webhookId, userId }) {
      if (started) backlog.add(webhookId, userId);
    },
    onEvent() {
      if (started && fanOuts.hasRoom) sweep.hurry();
    },
    get isWorking() {
      return started;
    },
    hasRoom: (webhook) => started && !dueComesFirst(webhook) && dispatcher.room(webhook) > 0,
    waiting,
    enqueue(refs) {
      if (started) for (const { webhookId, userId } of refs) backlog.add(webhookId, userId);
      jobs.scheduleWaiting(refs);
    },
    handOver(first) {
      const { _id: deliveryId, webhookId, userId, attempt } = first.claim.delivery;
      let isTaken = false;
      void dispatcher.offer({ deliveryId, webhookId, userId, attempt }, () => {
        isTaken = true;
        return attempts.prepareFirst(first);
      });
      return isTaken;
    },
    async start() {
      started = true;
      for (const periodic of periodics) periodic.start();
      for (const watch of deps.watches) watch.start();
      await jobs.start();
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}
