import { bucketOf, merged } from '../mongo/durations.ts';
import type { UsageRecord } from '../options/options.ts';
import type { ModelObserver } from '../proxy/hooks.ts';
import type { UpstreamCounts } from './model.ts';

/** The last bucket of durations.ts that is counted: six hours. */
const lastBucket = 93;
/** How long one slot counts, and how far back slots are kept. Milliseconds. */
const [slotLength, windowLength] = [30_000, 300_000] as const;

type Counts = Record<string, number>;

/** One upstream in one slot. */
interface Counters {
  requests: number;
  readonly errorCodes: Counts;
  readonly latency: Counts;
  readonly firstByte: Counts;
}

interface Slot {
  /** By `performance.now()`. */
  readonly startedAt: number;
  readonly byUpstream: ReadonlyMap<string, Counters>;
}

/** These say that the upstream, or the gateway's account there, is not well; other statuses below 500 are the caller's. */
const errorStatuses: ReadonlySet<number> = new Set([401, 403, 407, 408, 429]);

function add(counts: Counts, key: string | number): void {
  counts[key] = (counts[key] ?? 0) + 1;
}

function addDuration(counts: Counts, ms: number): void {
  add(counts, Math.min(lastBucket, bucketOf(ms)));
}

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, number) => sum + number, 0);

function mergedCounters(name: string, all: readonly Counters[]): Omit<UpstreamCounts, 'breaker' | 'isHanging'> {
  const errorCodes = merged(all.map((counters) => counters.errorCodes));
  return {
    name,
    requests: sumOf(all.map(({ requests }) => requests)),
    errors: sumOf(Object.values(errorCodes)),
    errorCodes,
    latency: merged(all.map(({ latency }) => latency)),
    firstByte: merged(all.map(({ firstByte }) => firstByte)),
  };
}

/** Counts this process's requests to upstreams of the last five minutes. */
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
    if (status < 400) addDuration(counters.firstByte, took);
    else if (status >= 500 || errorStatuses.has(status)) add(counters.errorCodes, `http_${status}`);
  }

  upstreamFailed(upstream: string, code: string): void {
    const counters = this.#current.byUpstream.get(upstream);
    if (!counters) return;
    counters.requests += 1;
    add(counters.errorCodes, code);
  }

  usageCounted({ upstream, ending, durationMs }: UsageRecord): void {
    if (ending !== 'complete') return;
    const counters = this.#current.byUpstream.get(upstream);
    if (counters) addDuration(counters.latency, durationMs);
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
    const upstreams = this.#names.map((name) => mergedCounters(name, countersOf(name)));
    return { age: now - (this.#slots[0]?.startedAt ?? now), upstreams };
  }

  #begin(now: number): Slot {
    const empty = (): Counters => ({ requests: 0, errorCodes: {}, latency: {}, firstByte: {} });
    const slot = { startedAt: now, byUpstream: new Map(this.#names.map((name) => [name, empty()])) };
    this.#slots.push(slot);
    return slot;
  }
}
