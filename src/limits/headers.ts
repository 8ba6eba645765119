/** One limit, and what has been used of it. */
export interface Standing {
  readonly kind: 'requests' | 'tokens';
  readonly limit: number;
  readonly used: number;
}

/** A duration as OpenAI writes it: `250ms`, `12.5s`. Pure. */
function duration(ms: number): string {
  return ms < 1_000 ? `${Math.ceil(ms)}ms` : `${Math.ceil(ms) / 1_000}s`;
}

function remaining({ limit, used }: Standing): number {
  return Math.max(0, limit - used);
}

/**
 * OpenAI's `x-ratelimit-*` headers (its API reference, "Rate limits in headers"); of several limits of a kind the one
 * with the least left. Pure.
 * @param resetIn milliseconds until all of it is there again
 */
export function rateLimitHeaders(standings: readonly Standing[], resetIn: number): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const kind of ['requests', 'tokens'] as const) {
    let least: Standing | undefined;
    for (const standing of standings) {
      if (standing.kind === kind && (!least || remaining(standing) < remaining(least))) least = standing;
    }
    if (!least) continue;
    headers[`x-ratelimit-limit-${kind}`] = String(least.limit);
    headers[`x-ratelimit-remaining-${kind}`] = String(remaining(least));
    headers[`x-ratelimit-reset-${kind}`] = duration(resetIn);
  }
  return headers;
}
