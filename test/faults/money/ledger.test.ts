import { expect } from 'chai';
import type { Disturbance } from '../verdict/disturbances.ts';
import type { WorkerEnd } from '../workers/workers.ts';
import type { SeenCall } from './calls.ts';
import { type AccountLedger, ledgerFaults, mayBeLost, recordFaults, thresholdFaults } from './ledger.ts';
import { costOf } from './options.ts';

const call: SeenCall = {
  id: 'call-1',
  account: 'rich',
  pid: 7,
  sentAt: 9_900,
  endedAt: 10_000,
  status: 200,
  isWhole: true,
};
const used = { inputTokens: 10, outputTokens: 20 };
const record = {
  _id: 'use_1',
  requestId: 'call-1',
  userId: 'usr_rich',
  ...used,
  ending: 'complete',
  estimated: false,
} as const;
const killed = (at: number) => ({ pid: 7, at, code: null, signal: 'SIGKILL' }) as const;

describe('the record that a call of the fault suite must have', () => {
  const recorded = { call, answers: [used], records: [record], mayBeLost: false };

  it('is exactly one, with the usage that the upstream reported', () => {
    expect(recordFaults(recorded)).to.deep.equal([]);
    expect(recordFaults({ ...recorded, records: [] })).to.have.length(1);
    expect(recordFaults({ ...recorded, records: [record, { ...record, _id: 'use_2' }] })).to.have.length(1);
    expect(recordFaults({ ...recorded, records: [{ ...record, outputTokens: 21 }] })).to.have.length(1);
    expect(recordFaults({ ...recorded, records: [{ ...record, estimated: true }] })).to.have.length(1);
  });

  it('is none when no upstream answered', () => {
    const refused = { ...recorded, call: { ...call, status: 402 }, answers: [] };
    expect(recordFaults({ ...refused, records: [] })).to.deep.equal([]);
    expect(recordFaults(refused)).to.have.length(1);
  });

  it('may be missing, but not there twice, when the client got no answer or the process may have lost it', () => {
    const broken = { ...recorded, call: { ...call, status: 0, isWhole: false } };
    expect(recordFaults({ ...broken, records: [] })).to.deep.equal([]);
    expect(recordFaults({ ...broken, records: [record, record] })).to.have.length(1);
    expect(recordFaults({ ...recorded, records: [], mayBeLost: true })).to.deep.equal([]);
  });
});

describe('the usage record of a call in the fault suite', () => {
  const away = { from: 5_000, to: 9_000, once: false };
  const lost = (ends: WorkerEnd[], disturbances: Disturbance[] = [], of = call, slow = 1) =>
    mayBeLost(of, { ends, disturbances, slowness: () => slow });

  it('may be lost when its process is killed right after the call, and not otherwise', () => {
    expect(lost([killed(10_200)])).to.equal(true);
    expect(lost([killed(12_000)])).to.equal(false);
    expect(lost([killed(12_000)], [], { ...call, sentAt: 9_000 }), 'when all is slow').to.equal(true);
    expect(lost([killed(20_000)])).to.equal(false);
    expect(lost([killed(12_000)], [], call, 2), 'when the machine is half as fast').to.equal(true);
    expect(lost([{ ...killed(10_200), pid: 8 }])).to.equal(false);
    expect(lost([{ ...killed(10_200), signal: null, code: 0 }])).to.equal(false);
  });

  it('may be lost when it waits for the database and its process ends before the database is back', () => {
    expect(lost([killed(15_000)], [away])).to.equal(true);
    expect(lost([killed(40_000)], [away])).to.equal(false);
  });
});

type Entry = AccountLedger['entries'][number];

describe('the ledger of an account of the fault suite', () => {
  const added = { entryId: 'top_up:1', userId: 'usr_rich', amount: 1_000_000, sentAt: 0, confirmedAt: 1 };
  const sums = { requests: 1, ...used, cachedInputTokens: 0, reasoningTokens: 0, images: 0, seconds: 0, characters: 0 };
  const ledger: AccountLedger = {
    userId: 'usr_rich',
    balance: 1_000_000 - costOf(used),
    entries: [
      { _id: 'top_up:1', kind: 'top_up', amount: 1_000_000 },
      { _id: 'use_1', kind: 'usage', amount: -costOf(used) },
    ],
    records: [record],
    counters: [sums],
    days: [{ ...sums, _id: '', userId: 'usr_rich', period: 'daily', start: '2026-01-31' }],
  };

  it('agree when balance, entries, records and counters match', () => {
    expect(ledgerFaults(ledger, [added])).to.deep.equal([]);
  });

  it('do not agree when a charge is missing, doubled or wrong, a top-up is missing or unknown, or the balance is wrong', () => {
    const [topUp, charge] = ledger.entries as [Entry, Entry];
    const withEntries = (...entries: Entry[]) => ({
      ...ledger,
      entries,
      balance: entries.reduce((sum, { amount }) => sum + amount, 0),
    });
    expect(ledgerFaults(withEntries(topUp), [added]), 'not charged').to.have.length(1);
    expect(ledgerFaults(withEntries(charge), [added]), 'not added').to.have.length(1);
    expect(ledgerFaults(withEntries(topUp, { ...charge, amount: -1 }), [added]), 'otherwise').to.have.length(1);
    const twice = withEntries(topUp, charge, { ...charge, _id: 'use_2' });
    expect(ledgerFaults(twice, [added]), 'charged twice').to.have.length(1);
    expect(ledgerFaults(ledger, []), 'added by nobody').to.have.length(1);
    expect(ledgerFaults({ ...ledger, balance: 1 }, [added]), 'balance').to.have.length(1);
  });

  it('do not agree when counters miss a call or count it twice', () => {
    expect(ledgerFaults({ ...ledger, counters: [] }, [added])).to.have.length(1);
    expect(ledgerFaults({ ...ledger, counters: [sums, sums] }, [added])).to.have.length(1);
    expect(ledgerFaults({ ...ledger, days: [] }, [added])).to.have.length(1);
  });
});

describe('the thresholds of a quota of the fault suite', () => {
  const quota = { quota: 40, thresholds: [50, 100] };

  it('are reported once each when they are reached', () => {
    expect(thresholdFaults([{ requests: 19 }], [], quota)).to.deep.equal([]);
    expect(thresholdFaults([{ requests: 20 }], [50], quota)).to.deep.equal([]);
    expect(thresholdFaults([{ requests: 90 }, { requests: 20 }], [50, 100, 50], quota)).to.deep.equal([]);
    expect(thresholdFaults([{ requests: 20 }], [], quota)).to.have.length(1);
    expect(thresholdFaults([{ requests: 20 }], [50, 50], quota)).to.have.length(1);
    expect(thresholdFaults([{ requests: 19 }], [50], quota)).to.have.length(1);
  });
});
