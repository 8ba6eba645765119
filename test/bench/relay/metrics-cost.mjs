// What the metrics of one call cost this process: those of the built package, as a relayed call tells them.
import { createMetrics } from '../../../dist/metrics/metrics.js';

const { requests, models, credits } = createMetrics();

/** All that a call tells where credits are on. */
function countCall() {
  models.upstreamAnswered('one', 200, 812);
  models.usageCounted({
    upstream: 'one',
    ending: 'complete',
    durationMs: 900,
    inputTokens: 30,
    cachedInputTokens: 10,
    outputTokens: 7,
  });
  credits.admitted();
  requests.ended({ operation: 'createChatCompletion', status: 200, code: undefined });
}

/** Counts so many calls. @returns microseconds of CPU a call */
export function metricsCost(calls) {
  const before = process.cpuUsage();
  for (let i = 0; i < calls; i += 1) countCall();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / calls;
}
