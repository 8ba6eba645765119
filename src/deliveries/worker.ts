import { setTimeout as sleep } from 'node:timers/promises';
import type { Outbox, StoredEvent } from '../events/outbox.ts';
import type { Logger } from '../options.ts';
import type { MakeAttempt } from './attempt.ts';
import type { Background } from './background.ts';
import type { Claims } from './claims.ts';
import { type Bell, createIntake } from './intake.ts';
import type { Jobs } from './jobs.ts';
import { createPeriodic } from './periodic.ts';
import type { FindClaimable } from './sweep.ts';

/** Attempts in flight to one webhook, in one process. */
const perWebhook = 10;
/** Events that their publisher may still be fanning out are left to it for so long. Milliseconds. */
const fanOutGrace = 100;
/** Events taken up by one look. */
const fanOutBatch = 100;
/** How often it is looked for events that have outlived the retention. Milliseconds. */
const retentionInterval = 3_600_000;
/** The longest that closing waits for attempts in flight: their deadline, and the time to record them. Milliseconds. */
const closeDeadline = 33_000;

/** Durations are milliseconds. */
export interface WorkerDeps {
  readonly concurrency: number;
  readonly sweepInterval: number;
  readonly fanOutInterval: number;
  readonly makeAttempt: MakeAttempt;
  readonly claims: Pick<Claims, 'dueIn'>;
  readonly findClaimable: FindClaimable;
  readonly fanOut: (event: StoredEvent) => Promise<void>;
  readonly outbox: Pick<Outbox, 'unfinished'>;
  readonly expireEvents: () => Promise<void>;
  readonly jobs: Jobs;
  readonly background: Background;
  readonly logger: Logger;
}

/** Makes attempts in this process. */
export interface Worker {
  /** Called when a job rings. */
  onBell(bell: Bell): void;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Joins what starts attempts (jobs and sweeps) with what bounds them. */
export function createWorker(deps: WorkerDeps): Worker {
  const { concurrency, jobs, logger, background } = deps;
  const batch = concurrency * 4;
  let moreDue = false;

  function ringAgain(bell: Bell, wait: number): void {
    background.add(jobs.schedule([bell], wait));
  }

  /** A job that rang early, by a clock that runs ahead, rings again when the attempt is due. */
  async function rearm(bell: Bell): Promise<void> {
    const wait = await deps.claims.dueIn(bell.deliveryId, bell.attempt);
    if (wait !== null) ringAgain(bell, wait);
  }

  async function run(bell: Bell): Promise<void> {
    try {
      const next = await deps.makeAttempt(bell.deliveryId, bell.attempt);
      if (next === 'unclaimed') await rearm(bell);
      else if (next !== 'ended') ringAgain({ ...bell, attempt: next.attempt }, next.retryIn);
    } catch (error) {
      moreDue = false;
      logger.warn('an attempt was left to the next sweep', { deliveryId: bell.deliveryId, reason: String(error) });
    }
  }

  const intake = createIntake({
    concurrency,
    perWebhook,
    waitingPerWebhook: 2 * perWebhook,
    run,
    onSpace() {
      if (moreDue) sweep.hurry();
    },
  });

  /** What finds no place is found again by a sweep as soon as there is one. */
  function take(bell: Bell): void {
    if (!intake.offer(bell)) moreDue = true;
  }

  async function startClaimable(): Promise<void> {
    if (!intake.hasSpace()) return;
    const found = await deps.findClaimable(batch, intake.full());
    moreDue = found.length === batch;
    for (const bell of found) take(bell);
  }

  async function finishFanOuts(): Promise<void> {
    const events = await deps.outbox.unfinished(fanOutBatch, fanOutGrace);
    await Promise.all(events.map(deps.fanOut));
    if (events.length === fanOutBatch) fanOuts.hurry();
  }

  const sweep = createPeriodic('the sweep', deps.sweepInterval, startClaimable, logger);
  const fanOuts = createPeriodic('finishing fan-outs', deps.fanOutInterval, finishFanOuts, logger);
  const retention = createPeriodic('expiring events', retentionInterval, deps.expireEvents, logger);
  const periodics = [sweep, fanOuts, retention];

  return {
    onBell: take,
    async start() {
      for (const periodic of periodics) periodic.start();
      await jobs.start();
    },
    async close() {
      await Promise.all([jobs.stop(), ...periodics.map((periodic) => periodic.stop())]);
      await Promise.race([intake.close(), sleep(closeDeadline, undefined, { ref: false })]);
      await jobs.release();
    },
  };
}
