import type { LedgerDocument, PeriodDocument, UsageDocument, UsageSums } from '../../../src/accounting/model.ts';
import type { Disturbance } from '../verdict/disturbances.ts';
import type { AdmissionEvidence } from './admission.ts';
import type { SeenCall } from './calls.ts';
import type { AddedCredits } from './funding.ts';
import type { UpstreamAnswer } from './model-upstream.ts';
import { costOf } from './options.ts';

type Times = { readonly from: number; readonly to: number };
type StoredCall = Pick<
  UsageDocument,
  '_id' | 'requestId' | 'userId' | 'inputTokens' | 'outputTokens' | 'ending' | 'estimated' | 'stored'
>;

/** How soon everything goes on by itself after a fault of the database. Milliseconds. */
const recovery = 10_000;
/** What a process had not yet written when it was killed: its last 50 ms, and one write; as many times as that as the machine is slow. Milliseconds. */
const lastMoments = 1_500;

/**
 * Whether the database was broken at some time of these, or shortly before. One whose clock was set waits by as much longer for what
 * it waits for until a time of day, its journal among it.
 */
export function wasBroken({ from, to }: Times, disturbances: readonly Disturbance[]): boolean {
  return disturbances.some((one) => !one.once && one.from <= to && one.to + recovery + (one.clockOff ?? 0) >= from);
}

/**
 * Whether the record of a call may be lost: the process was killed right after the call, where a call that itself took long shows that a
 * write did too; or ended while the database had been
 * away since and its records waited in memory.
 */
export function mayBeLost(
  { pid, sentAt, endedAt }: SeenCall,
  { ends, disturbances, slowness }: Pick<AdmissionEvidence, 'ends' | 'disturbances' | 'slowness'>,
): boolean {
  const end = ends.find((one) => one.pid === pid);
  if (!end) return false;
  const longest = lastMoments * slowness(endedAt, end.at) + (endedAt - sentAt);
  if (end.signal === 'SIGKILL' && end.at - endedAt <= longest) return true;
  return (
    wasBroken({ from: endedAt, to: endedAt + lastMoments }, disturbances) &&
    wasBroken({ from: end.at, to: end.at }, disturbances)
  );
}

/** A call, and what is known of it elsewhere. */
export interface RecordedCall {
  readonly call: SeenCall;
  readonly answers: readonly UpstreamAnswer[];
  readonly records: readonly StoredCall[];
  readonly mayBeLost: boolean;
}

/** What is wrong about the record of a call. */
export function recordFaults({ call, answers, records, mayBeLost }: RecordedCall): string[] {
  const [record, ...more] = records;
  if (more.length > 0) return [`it is recorded ${records.length} times`];
  // what a killed process left open is closed as estimated, whether it had reached the upstream or not
  if (record && answers.length === 0 && record.ending !== 'orphaned' && record.ending !== null)
    return ['it is recorded although nobody answered it'];
  const isReceived = call.status === 200 && call.isWhole;
  if (!isReceived || mayBeLost) return [];
  if (!record) return ['it was answered and has no record'];
  const used = `${record.inputTokens} ${record.outputTokens}`;
  const said = answers.map(({ inputTokens, outputTokens }) => `${inputTokens} ${outputTokens}`);
  if (said.includes(used) && !record.estimated) return [];
  return [`it is recorded with ${used} ${record.ending}, and the upstream said ${said.join(', ')}`];
}

/** What is wrong about the records of an upload: one at most, of one file and of no tokens. */
export function uploadFaults(records: readonly StoredCall[]): string[] {
  const [record, ...more] = records;
  if (!record) return [];
  if (more.length > 0) return [`it is recorded ${records.length} times`];
  const { stored, inputTokens, outputTokens } = record;
  if (stored?.made === 1 && inputTokens + outputTokens === 0) return [];
  return ['it is recorded as if a model was called'];
}

/** An account as the database has it. */
export interface AccountLedger {
  readonly userId: string;
  /** Micro-credits; `undefined` where there is no balance. */
  readonly balance: number | undefined;
  readonly entries: readonly Pick<LedgerDocument, '_id' | 'kind' | 'amount'>[];
  readonly records: readonly StoredCall[];
  /** By day, model and key. */
  readonly counters: readonly UsageSums[];
  readonly days: readonly PeriodDocument[];
}

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0);

function totals(sums: readonly Pick<UsageSums, 'requests' | 'inputTokens' | 'outputTokens'>[]): string {
  const input = sumOf(sums.map(({ inputTokens }) => inputTokens));
  const output = sumOf(sums.map(({ outputTokens }) => outputTokens));
  return `${sumOf(sums.map(({ requests }) => requests))} calls, ${input} and ${output} tokens`;
}

/** What of an account's ledger does not agree: entries with records and with what was added, balance and counters with both. */
export function ledgerFaults(ledger: AccountLedger, added: readonly AddedCredits[]): string[] {
  const { userId, balance = 0, entries, records, counters, days } = ledger;
  const found: string[] = [];
  const sum = sumOf(entries.map(({ amount }) => amount));
  if (sum !== balance) found.push(`${userId} has a balance of ${balance}, and its ledger comes to ${sum}`);

  const byId = new Map(entries.map((entry) => [entry._id, entry]));
  const expected = new Map(added.map((one) => [one.entryId, one.amount]));
  const ended = records.filter(({ ending }) => ending !== null);
  for (const record of ended) expected.set(record._id, -costOf(record));
  for (const [id, amount] of expected) {
    const booked = byId.get(id)?.amount;
    if (booked !== amount) found.push(`${userId} has ${booked ?? 'no entry'} for ${id}, which is ${amount}`);
  }
  for (const { _id, amount } of entries) {
    if (!expected.has(_id)) found.push(`${userId} has ${amount} for ${_id}, which nobody asked for`);
  }
  // a file is counted by its bytes
  const used = totals(ended.map((record) => ({ ...record, requests: record.stored ? 0 : 1 })));
  for (const [name, counted] of [
    ['counters', counters],
    ['days', days],
  ] as const) {
    if (totals(counted) !== used) found.push(`${userId} used ${used}, and its ${name} have ${totals(counted)}`);
  }
  return found;
}

/** Thresholds of a daily quota of calls that were not told exactly once when they were reached. @param told in percent */
export function thresholdFaults(
  days: readonly Pick<PeriodDocument, 'requests'>[],
  told: readonly number[],
  { quota, thresholds }: { readonly quota: number; readonly thresholds: readonly number[] },
): string[] {
  const reached = days.flatMap(({ requests }) => thresholds.filter((threshold) => requests * 100 >= threshold * quota));
  const [expected, found] = [reached, told].map((all) => all.map(String).toSorted().join(' ') || 'none');
  return expected === found ? [] : [`thresholds reached: ${expected}; published: ${found}`];
}
