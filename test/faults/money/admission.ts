import type { Disturbance, Skew, Stop } from '../verdict/disturbances.ts';
import type { WorkerEnd } from '../workers/workers.ts';
import type { SeenCall } from './calls.ts';
import type { AddedCredits } from './funding.ts';
import { wasBroken } from './ledger.ts';

/** Who was let through and who was refused, held against what each could afford. */
export interface AdmissionEvidence {
  readonly calls: readonly SeenCall[];
  /** To the account `poor`, which begins with nothing. */
  readonly added: readonly AddedCredits[];
  /** Micro-credits, for a call that the upstream answered; 0 for any other. */
  readonly costOf: (call: SeenCall) => number;
  readonly ends: readonly WorkerEnd[];
  readonly disturbances: readonly Disturbance[];
  readonly skews: readonly Skew[];
  readonly stops: readonly Stop[];
  /** How many times as slow as at its fastest the machine was in this time, 1 at least. Milliseconds since 1970. */
  readonly slowness: (from: number, to: number) => number;
}

/** How long it takes at most until what one process has released or booked can be spent in another, with room for a busy machine. Milliseconds. */
const agreedWithin = 3_000;
/**
 * How long one that ended is felt: the clients of its last moments, others that wait for the transaction it died in, and those that start
 * in its place. Milliseconds.
 */
const replacedWithin = 15_000;
/** What a call is answered within, whatever is broken: 5 s, and half as much again; as many times as that as the machine is slow. Milliseconds. */
const answeredWithin = 7_500;
/** A database on a machine that is as many times slower may not answer in the time that a call waits for it. */
const starved = 2;
const minute = 60_000;

const minuteOf = (time: number) => Math.floor(time / minute);

/** Errors that a well-formed call with a valid key gets from no healthy gateway, nor from one whose database is away. */
function isNonsense({ status }: SeenCall): boolean {
  return status >= 400 && ![402, 429, 502, 503, 504].includes(status);
}

/**
 * What the account surely has left when the call is decided: what was confirmed before, less what was asked for since, and less what is reserved for
 * others. Micro-credits.
 */
function surelyLeft(call: SeenCall, { calls, added, costOf }: AdmissionEvidence, largestReservation: number): number {
  const confirmed = added.filter(({ confirmedAt }) => confirmedAt < call.sentAt - agreedWithin);
  const others = calls.filter((one) => one !== call && one.account === call.account && one.sentAt < call.endedAt);
  const spent = others.map((one) => (one.endedAt > call.sentAt - agreedWithin ? largestReservation : costOf(one)));
  return confirmed.reduce((sum, { amount }) => sum + amount, 0) - spent.reduce((sum, one) => sum + one, 0);
}

/** Whether something was broken while the call ran that may be why it was refused. */
function isExcused({ sentAt: from, endedAt: to }: SeenCall, { ends, disturbances }: AdmissionEvidence): boolean {
  if (wasBroken({ from, to }, disturbances)) return true;
  return ends.some((end) => end.at >= from - replacedWithin && end.at <= to + replacedWithin);
}

/** Whether a worker whose clock was wrong may have counted the call in this minute. */
function isCountedIn(present: number, { sentAt }: SeenCall, skews: readonly Skew[]): boolean {
  return skews.some(
    ({ from, to, by }) => sentAt >= from && sentAt <= to && by.some((off) => minuteOf(sentAt + off) === present),
  );
}

/** Whether a call of the limited account was refused in a minute in which it had calls left for certain. */
function hadCallsLeft(call: SeenCall, { calls, skews }: AdmissionEvidence, limit: number): boolean {
  const present = minuteOf(call.sentAt);
  // which minute it fell into is known to the gateway alone where it ran across the end of one
  if (minuteOf(call.endedAt) !== present) return false;
  const before = calls.filter(
    (one) =>
      one.account === call.account &&
      one !== call &&
      ((one.sentAt < call.endedAt && minuteOf(one.endedAt) >= present) || isCountedIn(present, one, skews)),
  );
  return before.length < limit;
}

/** How long the process that was called may have been stopped meanwhile. Milliseconds. */
function stoppedFor({ pid, sentAt, endedAt }: SeenCall, stops: readonly Stop[]): number {
  const met = stops.filter((stop) => stop.pid === pid && stop.from <= endedAt && stop.to >= sentAt);
  return met.reduce((sum, { from, to }) => sum + Math.min(to, endedAt) - Math.max(from, sentAt), 0);
}

/** What the gateways of the suite allow. */
export interface Bounds {
  /** What is reserved for a call at most. Micro-credits. */
  readonly largestReservation: number;
  /** What calls cost at most whose records die with their process, or cannot be written. Micro-credits. */
  readonly unrecorded: number;
  /** Calls a minute of the account `limited`. */
  readonly limit: number;
}

/** What is wrong about the answer of a call. */
export function answerFaults(call: SeenCall, evidence: AdmissionEvidence, bounds: Bounds): string[] {
  const { account, status, code, isWhole, sentAt, endedAt } = call;
  const found: string[] = [];
  if (isNonsense(call)) found.push(`it was answered ${status} ${code}`);
  const took = endedAt - sentAt;
  if (took - stoppedFor(call, evidence.stops) > answeredWithin * evidence.slowness(sentAt, endedAt))
    found.push(`it took ${took} ms until ${status} ${code ?? ''}`);
  if (status === 402 && account !== 'poor') found.push('it was told 402 although the account has plenty');
  if (isExcused(call, evidence)) return found;
  const isStarved = code === 'database_unavailable' && evidence.slowness(sentAt, endedAt) >= starved;
  if (!isStarved && (status === 0 || status >= 500 || !isWhole))
    found.push(`nothing was broken, and it was answered ${status} ${code ?? ''}`);
  if (status === 429 && account === 'rich') found.push('it was told 429 although the account has plenty');
  if (status === 429 && account === 'limited' && hadCallsLeft(call, evidence, bounds.limit)) {
    found.push('it was told 429 although the account had calls left');
  }
  const left = status === 402 && account === 'poor' ? surelyLeft(call, evidence, bounds.largestReservation) : 0;
  if (left >= bounds.largestReservation) found.push(`it was told 402 with ${left} micro-credits left`);
  return found;
}

/**
 * What is wrong about what the account `poor` was served: it overdraws only by what a gateway could not record, because it was cut off from the
 * database or died.
 */
export function overdraftFaults(evidence: AdmissionEvidence, { unrecorded }: Pick<Bounds, 'unrecorded'>): string[] {
  const { added, costOf, disturbances, ends } = evidence;
  const served = evidence.calls
    .filter((call) => call.account === 'poor' && costOf(call) > 0)
    .toSorted((a, b) => a.sentAt - b.sentAt);
  const pids = new Set<number>();
  let spent = 0;
  for (const call of served) {
    spent += costOf(call);
    pids.add(call.pid);
    const given = added.filter(({ sentAt }) => sentAt <= call.endedAt).reduce((sum, { amount }) => sum + amount, 0);
    const faults = [...pids].filter(
      (pid) =>
        ends.some((end) => end.pid === pid && end.signal === 'SIGKILL') || disturbances.some(({ once }) => !once),
    ).length;
    const bound = faults * unrecorded;
    if (spent - given > bound)
      return [`poor was served ${spent} of ${given} micro-credits by ${call.id}; ${bound} may be overdrawn`];
  }
  return [];
}

/** Calls that the other processes let through between two exchanges, with room for a busy machine. */
const letThroughBetween = 6;

/**
 * Minutes in which the account `limited` was served more than it may be: a process that can exchange nothing counts alone, and so does
 * one whose clock is wrong.
 */
export function limitFaults({ calls, costOf, ends, disturbances }: AdmissionEvidence, limit: number): string[] {
  const byMinute = new Map<number, SeenCall[]>();
  for (const call of calls) {
    const present = minuteOf(call.sentAt);
    if (call.account !== 'limited' || costOf(call) === 0 || minuteOf(call.endedAt) !== present) continue;
    byMinute.set(present, [...(byMinute.get(present) ?? []), call]);
  }
  return [...byMinute].flatMap(([present, served]) => {
    const from = present * minute;
    const to = from + minute;
    const isBroken = wasBroken({ from, to }, disturbances) || ends.some(({ at }) => at >= from - minute && at <= to);
    const processes = isBroken ? new Set(served.map(({ pid }) => pid)).size : 1;
    const most = processes * limit + letThroughBetween;
    return served.length <= most
      ? []
      : [`limited was served ${served.length} calls in a minute, and ${most} are the most`];
  });
}
