import { setTimeout as sleep } from 'node:timers/promises';
import { createPeriodic } from '../../mongo/periodic.ts';
import type { Logger } from '../../options/options.ts';
import type { Attempts, FirstAttempt } from '../attempt/attempt.ts';
import { type AttemptRef, refOf, type ScheduledRef, type WebhookRef } from '../attempt/attempt-ref.ts';
import { createFanOutSweep, type FanOutSweepDeps } from '../fan-out/fan-out-sweep.ts';
import { createRoomQueue, type RoomQueue } from '../fan-out/room-queue.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { createBacklog } from './backlog.ts';
import { Dispatcher } from './dispatcher.ts';
import type { Due } from './due.ts';
import { createSweepCursor } from './sweep-cursor.ts';
import type { Watch } from './watch.ts';

/** How long a claimed attempt waits for a place, and a first attempt for room before that: together far less than a lease. Milliseconds. */
const maxWait = 1_000;
/** First attempts that wait for room, in multiples of attempts under way. */
const waitingLimit = 5;
/** Deliveries in one page of a sweep. */
const sweepPageSize = 1_000;
/** How often events older than the retention are looked for. Milliseconds. */
const retentionInterval = 3_600_000;
/** The longest that one such search may take. Milliseconds. */
const longestRetention = 600_000;
/** The longest that closing waits for attempts in flight: their deadline plus the time to record them. Milliseconds. */
const closeDeadline = 33_000;

/** Durations are milliseconds. */
export interface WorkerDeps {
  readonly concurrency: number;
  readonly concurrencyPerAccount: number;
  readonly concurrencyPerWebhook: number;
  readonly sweepInterval: number;
  readonly attempts: Attempts;
  readonly due: Due;
  /** Find deliveries and events sooner than a sweep does. */
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
  /** A stored delivery of this webhook is due. */
  onDue(webhook: WebhookRef): void;
  /** A stored event waits for its fan-out. */
  onEvent(): void;
  /** Whether this process makes attempts. */
  readonly isWorking: boolean;
  /** Whether a first attempt of this webhook would start at once: there is room, and nothing has been due for longer. */
  hasRoom(webhook: WebhookRef): boolean;
  /** First attempts that wait for room. */
  readonly waiting: Pick<RoomQueue, 'has' | 'wait'>;
  /** These attempts are due: starts them as soon as there is room. */
  enqueue(refs: readonly AttemptRef[]): void;
  /** Makes a first attempt; `false` if there is no room. Ask `hasRoom` before. */
  handOver(first: FirstAttempt): boolean;
  start(): Promise<void>;
  /** May be called again. */
  close(): Promise<void>;
}

/** Joins the parts that start attempts (publications, jobs, sweeps) with those that limit them. */
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

  const dispatcher = new Dispatcher({
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
    // stored deliveries come first
    mayWait: (webhook) => started && dispatcher.holds(webhook) && !backlog.includes(webhook.webhookId),
  });
  const fanOuts = createFanOutSweep({ ...deps.fanOuts, wanted: wantedOfEvents, logger });
  const backlog = createBacklog({
    due,
    wanted: (webhook) => dispatcher.wanted(webhook),
    wantedOf: (userId) => dispatcher.wantedOf(userId),
    wantedInAll: () => dispatcher.wantedInAll(),
    claim,
    onError: (error) => logger.warn('what is due was not claimed; the next sweep will', { reason: String(error) }),
  });

  /**
   * Whether stored deliveries that are due come before a new one. They are claimed when less than half of the attempts that may be
   * claimed ahead are held, so new deliveries may not hold more than that while anything waits.
   */
  function dueComesFirst(webhook: WebhookRef): boolean {
    if (backlog.isEmpty()) return false;
    if (backlog.isBehind(webhook.webhookId)) return true;
    return (
      dispatcher.wanted(webhook) === 0 || dispatcher.wantedOf(webhook.userId) === 0 || dispatcher.wantedInAll() === 0
    );
  }

  /** How many more first attempts of events are wanted: as many as there is room for, once few wait for it. */
  function wantedOfEvents(): number {
    const wanted = dispatcher.wantedInAll();
    return waiting.size < wanted / 2 ? wanted - waiting.size : 0;
  }

  /** Reads one page of what is due, so that a long backlog makes no sweep slower. */
  async function sweepPage(): Promise<void> {
    const { webhookIds, next, events } = await due.look(cursor.begin(), sweepPageSize, fanOuts.page());
    cursor.reached(next);
    for (const webhookId of webhookIds) backlog.add(webhookId);
    backlog.resume();
    const hasMoreEvents = await fanOuts.take(events);
    if (next || hasMoreEvents) sweep.hurry();
  }

  const sweep = createPeriodic({ name: 'the sweep', task: sweepPage, interval: deps.sweepInterval, logger });
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
      let isTaken = false;
      void dispatcher.offer(refOf(first.claim.delivery), () => {
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
