import { Counter, Histogram, type Registry } from 'prom-client';
import type { UsageRecord } from '../options/options.ts';
import type { ModelObserver } from '../proxy/observer.ts';
import { inBatches } from './in-batches.ts';
import { statusClass } from './status-class.ts';

/** From a small model's first token to an image. Seconds. */
const firstByteBuckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const durationBuckets = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900];

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
      buckets: durationBuckets,
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

/** Counts and measures model calls. */
export function modelMetrics(registers: Registry[]): ModelObserver {
  const { responses, failures, firstByte, durations, tokens } = createMeters(registers);

  function recordUsage(record: UsageRecord): void {
    const { upstream, ending, durationMs, inputTokens, cachedInputTokens, outputTokens, reasoningTokens } = record;
    durations.observe({ upstream, ending }, durationMs / 1_000);
    if (inputTokens > 0) tokens.inc({ upstream, kind: 'input' }, inputTokens);
    if (cachedInputTokens > 0) tokens.inc({ upstream, kind: 'cached_input' }, cachedInputTokens);
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
