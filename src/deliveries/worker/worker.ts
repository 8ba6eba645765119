import { setTimeout as sleep } from 'node:timers/promises';
import { createPeriodic, type OnRun, type Periodic } from '../../mongo/periodic.ts';
import type { Logger } from '../../options/options.ts';
import type { Attempts } from '../attempt/attempt.ts';
import type { AttemptRef, ScheduledRef, WebhookRef } from '../attempt/attempt-ref.ts';
import type { Dispatcher } from '../dispatcher/dispatcher.ts';
import { createFanOutSweep, type FanOutSweepDeps } from '../fan-out/fan-out-sweep.ts';
import type { FirstAttemptMaker } from '../fan-out/start-deliveries.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { horizon } from '../rate-limit/permits.ts';
import type { LimitedWebhook } from '../rate-limit/send-rates.ts';
import { createAttemptQueues } from './attempt-queues.ts';
import type { ClaimableAttempts } from './claimable-attempts.ts';
import { createFirstAttempts } from './first-attempts.ts';
import { createSweep } from './sweep.ts';
import type { Watch } from './watch.ts';

/** How often events older than the retention are looked for. Milliseconds. */
const retentionInterval = 3_600_000;
/** The longest that one such search may take. Milliseconds. */
const longestRetention = 600_000;
/** The longest that one sweep may take, and a little more. Milliseconds. */
const longestSweep = 10_000;
/** The longest that closing waits for attempts in flight: their deadline plus the time to record them. Milliseconds. */
const closeDeadline = 33_000;

/** Durations are milliseconds. */
export interface WorkerDeps {
  readonly concurrency: number;
  readonly concurrencyPerAccount: number;
  readonly concurrencyPerWebhook: number;
  readonly sweepInterval: number;
  /** Called after each sweep. @default nobody is */
  readonly onSwept?: OnRun;
  readonly attempts: Attempts;
  readonly due: ClaimableAttempts;
  /** Find deliveries and events sooner than a sweep does. */
  readonly watches: readonly Watch[];
  readonly fanOuts: Omit<FanOutSweepDeps, 'wanted' | 'logger'>;
  readonly expireEvents: () => Promise<void>;
  readonly jobs: Jobs;
  readonly logger: Logger;
}

/** Makes attempts in this process. */
export interface Worker extends FirstAttemptMaker {
  /** A job is due. */
  wake(ref: ScheduledRef): void;
  /** A stored delivery of this webhook is due. */
  onDue(webhook: WebhookRef): void;
  /** A stored event waits for its fan-out. */
  onEvent(): void;
  /** A rate limit of this webhook was met. @param pause milliseconds without a permit */
  onLimited(webhook: LimitedWebhook, pause: number): void;
  /** Whether this process makes attempts. */
  readonly isWorking: boolean;
  /** Whether it works, and its sweep has succeeded within the last few intervals. */
  readonly isLive: boolean;
  /** When its sweep last succeeded, by `performance.now()`. */
  readonly sweptAt: number | undefined;
  /** Attempts that are being sent, and those that are held: sent, claimed ahead, or being recorded. */
  readonly attempts: Dispatcher['attempts'];
  /** These attempts are due: starts them as soon as there is room. */
  enqueue(refs: readonly AttemptRef[]): void;
  start(): Promise<void>;
  /** May be called again. */
  close(): Promise<void>;
}

function createRetentionPeriodic(expireEvents: () => Promise<void>, logger: Logger): Periodic {
  return createPeriodic({
    name: 'expiring events',
    task: expireEvents,
    interval: retentionInterval,
    longestRun: longestRetention,
    logger,
  });
}

interface DueListenersDeps extends Pick<WorkerDeps, 'attempts' | 'jobs'> {
  readonly queues: ReturnType<typeof createAttemptQueues>;
  readonly isWorking: () => boolean;
}

/** What hears of stored attempts that are due, and of rate limits. */
function createDueListeners({ queues, attempts, jobs, isWorking }: DueListenersDeps) {
  const { dispatcher, backlog } = queues;
  return {
    wake(scheduled) {
      const { webhookId, userId } = scheduled;
      if (userId === undefined) return backlog.add(webhookId);
      const ref = { ...scheduled, userId };
      if (dispatcher.offer(ref, attempts.prepare) !== null) return;
      backlog.add(webhookId, userId);
      // this process, or a sweep of another, finds it when its webhook's limit lets it through
      if (!dispatcher.isLimited(ref)) jobs.scheduleWaiting([ref]);
    },
    onDue({ webhookId, userId }) {
      if (isWorking()) backlog.add(webhookId, userId);
    },
    onLimited(webhook, pause) {
      dispatcher.limit(webhook, Math.max(1, Math.ceil((webhook.rateLimit * horizon) / 1_000)), pause);
    },
    enqueue(refs) {
      if (isWorking()) for (const { webhookId, userId } of refs) backlog.add(webhookId, userId);
      jobs.scheduleWaiting(refs.filter((ref) => !dispatcher.isLimited(ref)));
    },
  } satisfies Partial<Worker>;
}

/** Joins the parts that start attempts (publications, jobs, sweeps) with those that limit them. */
export function createWorker(deps: WorkerDeps): Worker {
  const { attempts, jobs, logger } = deps;
  let started = false;
  let startedAt = 0;
  const isWorking = () => started;

  const queues = createAttemptQueues({
    ...deps,
    prepare: attempts.prepare,
    // an attempt that is claimed needs no job any more
    onClaimed: (ref) => void jobs.remove(ref),
    onRoomInAll() {
      if (fanOuts.mayGoOn) sweep.runNow();
    },
    isWorking,
  });
  const { dispatcher, backlog } = queues;
  const firstAttempts = createFirstAttempts({ ...queues, prepareFirst: attempts.prepareFirst, isWorking });
  const fanOuts = createFanOutSweep({ ...deps.fanOuts, wanted: firstAttempts.wanted, logger });
  const sweep = createSweep({ ...deps, backlog, fanOuts, interval: deps.sweepInterval });
  const periodics = [sweep, createRetentionPeriodic(deps.expireEvents, logger)];

  async function close(): Promise<void> {
    started = false;
    queues.waiting.close();
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
    ...createDueListeners({ queues, attempts, jobs, isWorking }),
    onEvent() {
      if (started && fanOuts.hasRoom) sweep.runNow();
    },
    get isWorking() {
      return started;
    },
    get isLive() {
      const silence = performance.now() - (sweep.succeededAt ?? startedAt);
      return started && silence < 3 * deps.sweepInterval + longestSweep;
    },
    get sweptAt() {
      return sweep.succeededAt;
    },
    get attempts() {
      return dispatcher.attempts;
    },
    hasRoom: firstAttempts.hasRoom,
    handOver: firstAttempts.handOver,
    waiting: queues.waiting,
    async start() {
      started = true;
      startedAt = performance.now();
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
