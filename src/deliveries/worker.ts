import { setTimeout as sleep } from 'node:timers/promises';
import type { Outbox, StoredEvent } from '../events/outbox.ts';
import type { Logger } from '../options.ts';
import type { Attempts, BornClaim } from './attempt.ts';
import { createBacklog } from './backlog.ts';
import type { Due } from './due.ts';
import { type Bell, createIntake } from './intake.ts';
import type { Jobs } from './jobs.ts';
import { createPasses } from './passes.ts';
import { createPeriodic } from './periodic.ts';
import type { Watch } from './watch.ts';

/** How long a claimed attempt may wait for a place. Milliseconds. */
const patience = 1_000;
/** Deliveries that one look at what is due goes through. */
const lookBatch = 1_000;
/** Events that their publisher may still be fanning out are left to it for so long. Milliseconds. */
const fanOutGrace = 50;
/** Events taken up by one look. */
const fanOutBatch = 100;
/** How often it is looked for events that have outlived the retention. Milliseconds. */
const retentionInterval = 3_600_000;
/** The longest that closing waits for attempts in flight: their deadline, and the time to record them. Milliseconds. */
const closeDeadline = 33_000;

/** Durations are milliseconds. */
export interface WorkerDeps {
  readonly concurrency: number;
  readonly concurrencyPerWebhook: number;
  readonly sweepInterval: number;
  readonly attempts: Attempts;
  readonly due: Due;
  /** Hears of deliveries sooner than a sweep finds them. */
  readonly watch?: Watch;
  readonly fanOut: (event: StoredEvent) => Promise<void>;
  readonly outbox: Pick<Outbox, 'unfinished'>;
  readonly expireEvents: () => Promise<void>;
  readonly jobs: Jobs;
  readonly logger: Logger;
}

/** Makes attempts in this process. */
export interface Worker {
  /** Called when a job rings. */
  onBell(bell: Bell): void;
  /** Something of this webhook is due. */
  onDue(webhookId: string): void;
  /** Whether a delivery to this webhook would be made at once, if it were claimed from its birth. */
  hasRoom(webhookId: string): boolean;
  /** These are due, and there was no room for them here: they begin as soon as there is. Never rejects. */
  wait(bells: readonly Bell[]): Promise<void>;
  /** Makes it, to be called where there was room. */
  handOver(born: BornClaim): void;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Joins what starts attempts (publishing here, jobs and sweeps) with what bounds them. */
export function createWorker(deps: WorkerDeps): Worker {
  const { attempts, due, jobs, logger } = deps;
  let started = false;
  const passes = createPasses();

  /** The job of an attempt that was found before it rang would ring in vain. */
  async function claim(bell: Bell): Promise<boolean> {
    const claimed = (await intake.offer(bell, attempts.prepare)) ?? false;
    if (claimed) void jobs.begun(bell);
    return claimed;
  }

  const intake = createIntake({
    concurrency: deps.concurrency,
    perWebhook: deps.concurrencyPerWebhook,
    patience,
    onRoom: (webhookId) => backlog.draw(webhookId),
    onRoomInAll: () => backlog.drawOthers(),
  });
  const backlog = createBacklog({
    due,
    wanted: intake.wanted,
    wantedInAll: intake.wantedInAll,
    claim,
    onError: (error) => logger.warn('what is due was not claimed; the next sweep will', { reason: String(error) }),
  });

  /** All that is due, if it is not too much; else page after page, so that no look costs more for a long backlog. */
  async function lookAround(): Promise<void> {
    const unfinished = deps.outbox.unfinished(fanOutBatch, fanOutGrace);
    const { webhookIds, next, events } = await due.look(passes.begin(), lookBatch, unfinished);
    passes.reached(next);
    for (const webhookId of webhookIds) backlog.add(webhookId);
    backlog.resume();
    await Promise.all(events.map(deps.fanOut));
    if (next || events.length === fanOutBatch) sweep.hurry();
  }

  const sweep = createPeriodic('the sweep', deps.sweepInterval, lookAround, logger);
  const retention = createPeriodic('expiring events', retentionInterval, deps.expireEvents, logger);
  const periodics = [sweep, retention];

  return {
    onBell(bell) {
      if (intake.offer(bell, attempts.prepare) === null) backlog.add(bell.webhookId);
    },
    onDue(webhookId) {
      if (started) backlog.add(webhookId);
    },
    hasRoom: (webhookId) => started && intake.room(webhookId) > 0,
    async wait(bells) {
      if (!started) return jobs.schedule(bells, 0);
      for (const { webhookId } of bells) backlog.add(webhookId);
      jobs.keep(bells);
    },
    handOver(born) {
      const { _id: deliveryId, webhookId, attempt } = born.claim.delivery;
      void intake.offer({ deliveryId, webhookId, attempt }, () => attempts.prepareBorn(born));
    },
    async start() {
      started = true;
      for (const periodic of periodics) periodic.start();
      deps.watch?.start();
      await jobs.start();
    },
    async close() {
      started = false;
      await Promise.all([
        jobs.stop(),
        backlog.close(),
        deps.watch?.close(),
        ...periodics.map((periodic) => periodic.stop()),
      ]);
      await Promise.race([intake.close(), sleep(closeDeadline, undefined, { ref: false })]);
      await jobs.release();
    },
  };
}
