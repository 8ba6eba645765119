import { bucketOf } from '../../statistics/histogram.ts';
import { hourOf } from '../../statistics/hours.ts';
import type { Failure } from './model.ts';
import type { RecordedAttempt } from './recorded-attempt.ts';

/** One webhook's attempts of one hour. */
export interface Hour {
  succeeded: number;
  failed: number;
  readonly durations: Map<number, number>;
}

/** One webhook's attempts since the last flush. */
export interface AttemptBatch {
  /** By the hour's start, in milliseconds. */
  readonly hours: Map<number, Hour>;
  lastSuccessAt: Date | null;
  lastFailure: Failure | null;
  /** The first failure after the last success. */
  failingSince: Date | null;
  /** Failures after the last success. */
  failures: number;
}

export function newAttemptBatch(): AttemptBatch {
  return { hours: new Map(), lastSuccessAt: null, lastFailure: null, failingSince: null, failures: 0 };
}

function addToHour({ hours }: AttemptBatch, { at, durationMs, code }: RecordedAttempt): void {
  const start = hourOf(at.getTime());
  const hour = hours.get(start) ?? { succeeded: 0, failed: 0, durations: new Map<number, number>() };
  hours.set(start, hour);
  if (code === undefined) hour.succeeded += 1;
  else hour.failed += 1;
  const bucket = bucketOf(durationMs);
  hour.durations.set(bucket, (hour.durations.get(bucket) ?? 0) + 1);
}

function addFailure(batch: AttemptBatch, { at, deliveryId, status }: RecordedAttempt, code: string): void {
  if (!batch.lastFailure || batch.lastFailure.at <= at) {
    batch.lastFailure = { at, deliveryId, ...(status !== undefined && { status }), code };
  }
  if (batch.lastSuccessAt && batch.lastSuccessAt >= at) return;
  batch.failures += 1;
  if (!batch.failingSince || batch.failingSince > at) batch.failingSince = at;
}

/** Adds an attempt. Attempts arrive roughly in the order of their ends. */
export function addAttempt(batch: AttemptBatch, attempt: RecordedAttempt): void {
  addToHour(batch, attempt);
  if (attempt.code === undefined) addSuccess(batch, attempt);
  else addFailure(batch, attempt, attempt.code);
}

function addSuccess(batch: AttemptBatch, attempt: RecordedAttempt): void {
  if (batch.lastSuccessAt && batch.lastSuccessAt >= attempt.at) return;
  batch.lastSuccessAt = attempt.at;
  if (batch.failingSince && batch.failingSince > attempt.at) return;
  batch.failingSince = null;
  batch.failures = 0;
}
