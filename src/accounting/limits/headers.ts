/** One limit, and what has been used of it. */
export interface LimitUsage {
  readonly kind: 'requests' | 'tokens';
  readonly limit: number;
  readonly used: number;
}

/** A duration as OpenAI writes it: `250ms`, `12.5s`. Pure. */
function duration(ms: number): string {
  return ms < 1_000 ? `${Math.ceil(ms)}ms` : `${Math.ceil(ms) / 1_000}s`;
}

function remaining({ limit, used }: LimitUsage): number {
  return Math.max(0, limit - used);
}

const kinds = ['requests', 'tokens'] as const;
const names = {
  requests: ['x-ratelimit-limit-requests', 'x-ratelimit-remaining-requests', 'x-ratelimit-reset-requests'],
  tokens: ['x-ratelimit-limit-tokens', 'x-ratelimit-remaining-tokens', 'x-ratelimit-reset-tokens'],
} as const;

/**
 * OpenAI's `x-ratelimit-*` headers (its API reference, "Rate limits in headers"). Of several limits of a kind, they show the one
 * with the least left. Pure.
 * @param resetIn milliseconds until the limits start anew
 */
export function rateLimitHeaders(usages: readonly LimitUsage[], resetIn: number): Record<string, string> {
  const headers: Record<string, string> = {};
  const reset = duration(resetIn);
  for (const kind of kinds) {
    let least: LimitUsage | undefined;
    for (const usage of usages) {
      if (usage.kind === kind && (!least || remaining(usage) < remaining(least))) least = usage;
    }
    if (!least) continue;
    const [limit, left, resetAt] = names[kind];
    headers[limit] = String(least.limit);
    headers[left] = String(remaining(least));
    headers[resetAt] = reset;
  }
  return headers;
}
