import type { AttemptRecord, DeliveryDocument } from '../../../src/deliveries/model.ts';
import type { Arrival } from '../receivers.ts';
import { clockOffOf, type Disturbance, excusable } from './disturbances.ts';

/** By how much the clocks of receiver and database may differ on one machine, scheduling included. Milliseconds. */
export const clockTolerance = 50;
/**
 * By how much an attempt's recorded times may be off: a gateway reads the database's clock through the network that is broken.
 * Milliseconds.
 */
const recordTolerance = 1_000;

/** A success that was recorded later than this may have met others who had claimed the attempt anew and were sending it. Milliseconds. */
const recordedWithin = 3_000;

const isSuccess = (status?: number) => status !== undefined && status < 300;

/**
 * Recorded attempts that no receiver saw so, each arrival standing for one: with this answer, after the attempt was claimed and
 * before the next one was, or the delivery ended.
 */
export function unseen(
  { attempts, endedAt }: DeliveryDocument,
  came: readonly Arrival[],
  clockOff = 0,
): AttemptRecord[] {
  const left = [...came];
  return attempts.filter(({ startedAt, status }, i) => {
    if (status === undefined) return false;
    const from = startedAt.getTime() - recordTolerance - clockOff;
    const to = (attempts[i + 1]?.startedAt ?? endedAt ?? new Date()).getTime() + recordTolerance + clockOff;
    const at = left.findIndex((arrival) => arrival.status === status && arrival.at >= from && arrival.at <= to);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

/** What is still to be done of a delivery that should have ended. */
export function isStuck({ state, lease, manual }: DeliveryDocument): boolean {
  return state === 'pending' || lease !== null || manual !== undefined;
}

/** Whether a delivery ended without what had to be done before. */
export function isLost({ state, attempts }: DeliveryDocument, came: readonly Arrival[]): boolean {
  if (state === 'delivered') return !came.some(({ status }) => isSuccess(status));
  return state === 'canceled' || (state === 'failed' && attempts.length < 6);
}

/** When the last request of a delivery that succeeded may have come. Milliseconds since 1970. */
function lastArrival({ attempts, endedAt, starts }: DeliveryDocument): number {
  if (!endedAt) return Number.POSITIVE_INFINITY;
  const success = attempts.find(({ status }) => isSuccess(status));
  const answeredAt = success ? success.startedAt.getTime() + success.durationMs : endedAt.getTime();
  const isLate = endedAt.getTime() - answeredAt > recordedWithin;
  // what ended with its first write did so by a gateway's reading of the clock
  const tolerance = starts === 0 ? recordTolerance : clockTolerance;
  return endedAt.getTime() + (isLate ? recordedWithin : tolerance);
}

/** In what the record of a delivery differs from what its receiver saw. */
export function disagreements(
  delivery: DeliveryDocument,
  came: readonly Arrival[],
  disturbances: readonly Disturbance[],
): string[] {
  const { attempts, state } = delivery;
  const clockOff = clockOffOf(came, disturbances);
  const found: string[] = [];
  if (attempts.some(({ number }, i) => number !== i + 1) || attempts.length > 6) found.push('attempts are misnumbered');
  for (const { number, status } of unseen(delivery, came, clockOff)) {
    found.push(`attempt ${number} is recorded with ${status}, which its receiver did not see`);
  }
  // receivers of the suite answer every request; only the death of workers ends an attempt without an answer
  for (const { number, code, status } of attempts) {
    if (status === undefined && code !== 'worker_crashed') found.push(`attempt ${number} is recorded with ${code}`);
  }
  const successes = came.filter(({ status }) => isSuccess(status));
  // a fault may have kept a success from being recorded in time, and the attempt was made again
  const mayBeLate = attempts.some(({ status }) => isSuccess(status)) && excusable(successes, disturbances) > 0;
  if (state === 'delivered' && !isSuccess(attempts.at(-1)?.status) && !mayBeLate)
    found.push('it ended without a recorded 2xx');
  // the first success is the recorded one, even where its process told the database's clock as of a moment ago
  const later = came.slice(came.findIndex(({ status }) => isSuccess(status)) + 1);
  if (state === 'delivered' && later.some(({ at }) => at > lastArrival(delivery) + clockOff)) {
    found.push('it was sent after a recorded 2xx');
  }
  if (state === 'failed' && excusable(successes, disturbances) < successes.length) {
    found.push('it is recorded as failed, and its receiver accepted it');
  }
  return found;
}
