import { bucketOf, type Durations, merged } from '../mongo/durations.ts';
import type { UsageRecord } from '../options/options.ts';
import type { ModelObserver } from '../proxy/hooks.ts';
import type { UpstreamCounts } from './model.ts';

/** Buckets of durations.ts, up to six hours. */
const buckets = 94;
/** How long one slot counts, and how far back slots are kept. Milliseconds. */
const [slotLength, windowLength] = [30_000, 300_000] as const;

/** One upstream in one slot. */
interface Counters {
  requests: number;
  errors: number;
  readonly codes: Record<string, number>;
  readonly latency: Uint32Array;
  readonly firstByte: Uint32Array;
}

interface Slot {
  /** By `performance.now()`. */
  readonly startedAt: number;
  readonly byUpstream: ReadonlyMap<string, Counters>;
}

/** These say that the upstream, or the gateway's account there, is not well; other statuses below 500 are the caller's. */
const errorStatuses: ReadonlySet<number> = new Set([401, 403, 407, 408, 429]);

function add(counts: Uint32Array, ms: number): void {
  const bucket = Math.min(buckets - 1, bucketOf(ms));
  counts[bucket] = (counts[bucket] as number) + 1;
}

function countError(counters: Counters, code: string): void {
  counters.errors += 1;
  counters.codes[code] = (counters.codes[code] ?? 0) + 1;
}

function toDurations(counts: Uint32Array): Durations {
  return Object.fromEntries([...counts.entries()].filter(([, count]) => count > 0));
}

function sumOf(name: string, all: readonly Counters[]): Omit<UpstreamCounts, 'breaker' | 'isHanging'> {
  return {
    name,
    requests: all.reduce((sum, { requests }) => sum + requests, 0),
    errors: all.reduce((sum, { errors }) => sum + errors, 0),
    errorCodes: merged(all.map(({ codes }) => codes)),
    latency: merged(all.map(({ latency }) => toDurations(latency))),
    firstByte: merged(all.map(({ firstByte }) => toDurations(firstByte))),
  };
}

/** Counts this process's requests to upstreams of the last five minutes, in fixed arrays: a call adds to a few numbers. */
export class UpstreamWindow implements ModelObserver {
  readonly #names: readonly string[];
  #slots: Slot[] = [];
  #current: Slot;

  constructor(names: readonly string[], now = performance.now()) {
    this.#names = names;
    this.#current = this.#begin(now);
  }

  upstreamAnswered(upstream: string, status: number, took: number): void {
    const counters = this.#current.byUpstream.get(upstream);
    if (!counters) return;
    counters.requests += 1;
    if (status < 400) add(counters.firstByte, took);
    else if (status >= 500 || errorStatuses.has(status)) countError(counters, `http_${status}`);
  }

  upstreamFailed(upstream: string, code: string): void {
    const counters = this.#current.byUpstream.get(upstream);
    if (!counters) return;
    counters.requests += 1;
    countError(counters, code);
  }

  usageCounted({ upstream, ending, durationMs }: UsageRecord): void {
    if (ending !== 'complete') return;
    const counters = this.#current.byUpstream.get(upstream);
    if (counters) add(counters.latency, durationMs);
  }

  /**
   * Sums up the window, and begins a slot where the present one is over.
   * @param now by `performance.now()`
   * @returns `age`: how long ago the counting began, in milliseconds
   */
  report(now = performance.now()) {
    if (now - this.#current.startedAt >= slotLength) this.#current = this.#begin(now);
    this.#slots = this.#slots.filter(({ startedAt }) => now - startedAt <= windowLength);
    const countersOf = (name: string) => this.#slots.flatMap(({ byUpstream }) => byUpstream.get(name) ?? []);
    const upstreams = this.#names.map((name) => sumOf(name, countersOf(name)));
    return { age: now - (this.#slots[0]?.startedAt ?? now), upstreams };
  }

  #begin(now: number): Slot {
    const empty = (): Counters => ({
      requests: 0,
      errors: 0,
      codes: {},
      latency: new Uint32Array(buckets),
      firstByte: new Uint32Array(buckets),
    });
    const slot = { startedAt: now, byUpstream: new Map(this.#names.map((name) => [name, empty()])) };
    this.#slots.push(slot);
    return slot;
  }
}
