import type { UsageRecord } from '../options/options.ts';

/** Told of the requests to upstreams, and of what calls have used. */
export interface ModelObserver {
  /** An upstream gave a response to a model call. @param took until its head was there, in milliseconds */
  upstreamAnswered(upstream: string, status: number, took: number): void;
  /** An upstream gave no response to a model call, or an error in a response of 2xx. @param code why */
  upstreamFailed(upstream: string, code: string): void;
  /** The usage of a call is known. */
  usageCounted(record: UsageRecord): void;
}
