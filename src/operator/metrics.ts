import { Counter, Histogram, Registry } from 'prom-client';
import type { CreditObserver } from '../accounting/credit-admission.ts';
import type { AttemptListeners } from '../deliveries/claims.ts';
import type { FanOutObserver } from '../deliveries/fan-out.ts';
import type { EndedRequest, RequestObserver } from '../http/operation.ts';
import type { OnRun } from '../mongo/periodic.ts';
import type { UsageRecord } from '../options/options.ts';
import type { ModelObserver } from '../proxy/hooks.ts';
import type { RecordedAttempt } from '../webhooks/recorder.ts';

/**
 * What a gateway counts and measures, in a separate registry. No label names an account, key, webhook or model, so that the number of series is
 * bounded.
 */
export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  return {
    registry,
    requests: requestMetrics(registers),
    models: modelMetrics(registers),
    deliveries: deliveryMetrics(registers),
    credits: creditMetrics(registers),
  };
}

/** So many measurements wait at most. */
const batchSize = 256;

/**
 * Makes a function that hands measurements to prom-client in batches: when 256 wait, and whenever one of the metrics is read. Handed over
 * one by one, among the steps of a call, the same work costs a relayed call 4.7 % more of its CPU (2.0 to 6.7).
 * @param record hands one over
 * @param metrics those that `record` changes, and no other batch
 */
function inBatches<T>(
  record: (measurement: T) => void,
  ...metrics: readonly (Counter | Histogram)[]
): (measurement: T) => void {
  let waiting: T[] = [];
  function recordWaiting(): void {
    const batch = waiting;
    waiting = [];
    for (const measurement of batch) record(measurement);
  }
  // prom-client calls it before it reads a metric
  for (const metric of metrics) Object.assign(metric, { collect: recordWaiting });
  return (measurement) => {
    if (waiting.push(measurement) === batchSize) recordWaiting();
  };
}

/** A status as a label: `2xx`, … */
function statusClass(status: number): string {
  return `${Math.floor(status / 100)}xx`;
}

function requestMetrics(registers: Registry[]): RequestObserver {
  const requests = new Counter({
    name: 'gateway_http_requests_total',
    help: 'Requests under /v1 that were answered, by operation of openapi.yaml and class of the status',
    labelNames: ['operation', 'status'],
    registers,
  });
  const errors = new Counter({
    name: 'gateway_http_errors_total',
    help: "Requests under /v1 that the gateway refused or failed, by the error's code",
    labelNames: ['code'],
    registers,
  });
  const count = inBatches(
    ({ operation, status, code }: Pick<EndedRequest, 'operation' | 'status' | 'code'>) => {
      if (status !== undefined) requests.inc({ operation, status: statusClass(status) });
      if (code !== undefined) errors.inc({ code });
    },
    requests,
    errors,
  );
  // the rest of a request need not be kept
  return { ended: ({ operation, status, code }) => count({ operation, status, code }) };
}

/** From a small model's first token to an image. Seconds. */
const firstByteBuckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** Seconds. */
const callBuckets = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900];

function createMeters(registers: Registry[]) {
  return {
    responses: new Counter({
      name: 'gateway_upstream_responses_total',
      help: 'Responses of upstreams to model calls, retried ones too, by class of the status',
      labelNames: ['upstream', 'status'],
      registers,
    }),
    failures: new Counter({
      name: 'gateway_upstream_failures_total',
      help: 'Requests to upstreams that got no response or an error in a 2xx, retried ones too, by reason',
      labelNames: ['upstream', 'code'],
      registers,
    }),
    firstByte: new Histogram({
      name: 'gateway_upstream_first_byte_seconds',
      help: "From a request to an upstream to the head of its response; the upstream's own time",
      labelNames: ['upstream', 'status'],
      buckets: firstByteBuckets,
      registers,
    }),
    durations: new Histogram({
      name: 'gateway_model_call_duration_seconds',
      help: 'From the start of a model call to its last byte, for calls that were answered 2xx or whose client left before, by how they ended',
      labelNames: ['upstream', 'ending'],
      buckets: callBuckets,
      registers,
    }),
    tokens: new Counter({
      name: 'gateway_model_tokens_total',
      help: 'Tokens of model calls that were answered; input includes cached input, output includes reasoning',
      labelNames: ['upstream', 'kind'],
      registers,
    }),
  };
}

interface UpstreamAnswer {
  readonly upstream: string;
  readonly status: number;
  /** Until the head of the answer. Milliseconds. */
  readonly took: number;
}

function modelMetrics(registers: Registry[]): ModelObserver {
  const { responses, failures, firstByte, durations, tokens } = createMeters(registers);

  function recordUsage(record: UsageRecord): void {
    const { upstream, ending, durationMs, inputTokens, cachedInputTokens, outputTokens, reasoningTokens } = record;
    const { cacheWriteTokens = 0 } = record;
    durations.observe({ upstream, ending }, durationMs / 1_000);
    if (inputTokens > 0) tokens.inc({ upstream, kind: 'input' }, inputTokens);
    if (cachedInputTokens > 0) tokens.inc({ upstream, kind: 'cached_input' }, cachedInputTokens);
    if (cacheWriteTokens > 0) tokens.inc({ upstream, kind: 'cache_write' }, cacheWriteTokens);
    if (outputTokens > 0) tokens.inc({ upstream, kind: 'output' }, outputTokens);
    if (reasoningTokens > 0) tokens.inc({ upstream, kind: 'reasoning' }, reasoningTokens);
  }

  function recordAnswer({ upstream, status, took }: UpstreamAnswer): void {
    const labels = { upstream, status: statusClass(status) };
    responses.inc(labels);
    firstByte.observe(labels, took / 1_000);
  }

  const answered = inBatches(recordAnswer, responses, firstByte);
  return {
    upstreamAnswered: (upstream, status, took) => answered({ upstream, status, took }),
    upstreamFailed: (upstream, code) => failures.inc({ upstream, code }),
    usageCounted: inBatches(recordUsage, durations, tokens),
  };
}

/** From the same moment to a backlog of hours. Seconds. */
const latenessBuckets = [0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1_800, 7_200];
/** Seconds. */
const attemptBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20];

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

function deliveryMetrics(registers: Registry[]) {
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
    buckets: attemptBuckets,
    registers,
  });
  const latenesses = new Histogram({
    name: 'gateway_delivery_lateness_seconds',
    help: 'From the time when a scheduled attempt was due to its start, by the clock of the database',
    buckets: latenessBuckets,
    registers,
  });
  function recordAttempt({ status, code, durationMs, lateness }: RecordedAttempt): void {
    const outcome = code === undefined ? 'succeeded' : 'failed';
    attempts.inc({ outcome, status: status === undefined ? 'none' : statusClass(status), code: codeLabel(code) });
    durations.observe({ outcome }, durationMs / 1_000);
    if (lateness !== undefined) latenesses.observe(Math.max(0, lateness) / 1_000);
  }

  return {
    ...fanOutMetrics(registers),
    ended: endingMetrics(registers),
    swept: sweepMetrics(registers),
    attempted: inBatches(recordAttempt, attempts, durations, latenesses),
  };
}

/** Counts what credits admit and refuse. */
function creditMetrics(registers: Registry[]): CreditObserver {
  const admissions = new Counter({
    name: 'gateway_credit_admissions_total',
    help: 'Model calls that credits have admitted, or refused by the code of the error; not one where credits are off',
    labelNames: ['outcome'],
    registers,
  });
  const count = inBatches((outcome: string) => admissions.inc({ outcome }), admissions);
  return { admitted: () => count('admitted'), refused: count };
}
