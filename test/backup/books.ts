import { expect } from 'chai';
import type { Connection } from 'mongoose';
import type { LedgerDocument, UsageDocument } from '../../src/accounting/model.ts';
import { until } from '../support/until.ts';

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0);

/** What a database says of usage and credits. */
export function openBooks(connection: Connection) {
  const usage = connection.collection<UsageDocument>('gateway_usage');
  const ledger = connection.collection<LedgerDocument>('gateway_credit_ledger');
  const accounts = connection.collection<{ _id: string; balance: number }>('gateway_credit_accounts');
  const counters = connection.collection<{ requests: number }>('gateway_usage_counters');
  const ended = { ending: { $ne: null } } as const;

  return {
    /**
     * Expects that each balance is the sum of its ledger, and that each counted call is charged once and counted once.
     * @returns how many calls are counted
     */
    async expectEven(when: string): Promise<number> {
      const entries = await ledger.find().toArray();
      for (const { _id, balance } of await accounts.find().toArray()) {
        const booked = entries.filter(({ userId }) => userId === _id).map(({ amount }) => amount);
        expect(sumOf(booked), `${when}: balance of ${_id}`).to.equal(balance);
      }
      const counted = (await usage.find({ counted: true }).toArray()).map(({ _id }) => String(_id));
      const charged = entries.filter(({ kind }) => kind === 'usage').map(({ _id }) => _id);
      expect(charged, `${when}: charged`).to.have.members(counted);
      const requests = (await counters.find().toArray()).map((counter) => counter.requests);
      expect(sumOf(requests), `${when}: sums`).to.equal(counted.length);
      return counted.length;
    },

    /** Resolves when every ended call is counted; to how many there are. */
    async settled(): Promise<number> {
      await until(async () => !(await usage.findOne({ ...ended, counted: { $ne: true } })), 60_000, 'all is counted');
      return usage.countDocuments(ended);
    },
  };
}
