import { Counter, Histogram, type Registry } from 'prom-client';
import type { AttemptListeners } from '../deliveries/claims.ts';
import type { FanOutObserver } from '../deliveries/fan-out.ts';
import type { OnRun } from '../mongo/periodic.ts';
import type { RecordedAttempt } from '../webhooks/health/recorder.ts';
import { inBatches } from './in-batches.ts';
import { statusClass } from './status-class.ts';

/** Counts and measures deliveries and their attempts. */
export interface DeliveryMetrics extends FanOutObserver {
  attempted(attempt: RecordedAttempt): void;
  /** A delivery has ended by a write of this process. */
  readonly ended: AttemptListeners['onEnded'];
  /** A sweep has ended. */
  readonly swept: OnRun;
}

/** From the same moment to a backlog of hours. Seconds. */
const latenessBuckets = [0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1_800, 7_200];
const durationBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20];

/** From an idle sweep to one that is given up. Seconds. */
const sweepBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** From one webhook to the largest fan-outs. */
const sizeBuckets = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000];

/** Receivers choose their status: one label for all of them, because a series for each has no bound. */
function codeLabel(code = ''): string {
  return code.startsWith('http_') ? 'http_status' : code;
}

function fanOutMetrics(registers: Registry[]): FanOutObserver {
  const fanOuts = new Histogram({
    name: 'gateway_fan_out_deliveries',
    help: 'Deliveries of an event whose fan-out this process has begun',
    buckets: sizeBuckets,
    registers,
  });
  const inserts = new Histogram({
    name: 'gateway_deliveries_insert_size',
    help: 'Deliveries that this process has inserted by one write',
    buckets: sizeBuckets,
    registers,
  });
  return {
    fannedOut: (deliveries) => fanOuts.observe(deliveries),
    inserted: (deliveries) => inserts.observe(deliveries),
  };
}

function sweepMetrics(registers: Registry[]): OnRun {
  const sweeps = new Counter({
    name: 'gateway_sweeps_total',
    help: "Looks of this process's worker for what is due, by outcome",
    labelNames: ['outcome'],
    registers,
  });
  const durations = new Histogram({
    name: 'gateway_sweep_duration_seconds',
    help: 'How long such a look took; each reads one page, and a long backlog takes several',
    buckets: sweepBuckets,
    registers,
  });
  return (outcome, took) => {
    sweeps.inc({ outcome });
    durations.observe(took / 1_000);
  };
}

function endingMetrics(registers: Registry[]): AttemptListeners['onEnded'] {
  const endings = new Counter({
    name: 'gateway_deliveries_ended_total',
    help: 'Deliveries that ended by a write of this process, by state and by why they failed or were canceled; those of test events are left out',
    labelNames: ['state', 'code'],
    registers,
  });
  return (state, code) => endings.inc({ state, code: codeLabel(code) });
}

export function deliveryMetrics(registers: Registry[]): DeliveryMetrics {
  const attempts = new Counter({
    name: 'gateway_delivery_attempts_total',
    help: 'Attempts that this process has recorded, by outcome, class of the status (none without an answer) and failure code',
    labelNames: ['outcome', 'status', 'code'],
    registers,
  });
  const durations = new Histogram({
    name: 'gateway_delivery_attempt_duration_seconds',
    help: 'How long receivers took to answer an attempt, or until it was given up',
    labelNames: ['outcome'],
    buckets: durationBuckets,
    registers,
  });
  const lateness = new Histogram({
    name: 'gateway_delivery_lateness_seconds',
    help: 'From the time when a scheduled attempt was due to its start, by the clock of the database',
    buckets: latenessBuckets,
    registers,
  });
  function recordAttempt({ status, code, durationMs, late }: RecordedAttempt): void {
    const outcome = code === undefined ? 'succeeded' : 'failed';
    attempts.inc({ outcome, status: status === undefined ? 'none' : statusClass(status), code: codeLabel(code) });
    durations.observe({ outcome }, durationMs / 1_000);
    if (late !== undefined) lateness.observe(Math.max(0, late) / 1_000);
  }

  return {
    ...fanOutMetrics(registers),
    ended: endingMetrics(registers),
    swept: sweepMetrics(registers),
    attempted: inBatches(recordAttempt, attempts, durations, lateness),
  };
}
