import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mongoose';
import { createAccountingModels, type UsageDocument } from '../../../src/accounting/model.ts';
import { UsageService } from '../../../src/accounting/usage-writer.ts';
import type { EventDocument } from '../../../src/events/model.ts';
import { silentLogger } from '../../support/logger.ts';
import type { AccountLedger } from './ledger.ts';

const prefix = 'gateway_';

/** What the database says about usage and money. */
export function openRecords(connection: Connection) {
  const { usage, counters, periods, ledger, accounts: balances } = createAccountingModels(connection, prefix);
  // another process whose time has come to close what the dead left open
  const { sweep } = new UsageService({ usage, logger: silentLogger, longestCall: 0, clockMargin: 0 });

  async function until(isDone: () => Promise<boolean>, deadline: number): Promise<boolean> {
    for (;;) {
      if (await isDone().catch(() => false)) return true;
      if (performance.now() > deadline) return false;
      await sleep(200);
    }
  }

  return {
    /**
     * Resolves when these calls are recorded and everything is counted and charged, or after so long.
     * @returns what is still left to do
     */
    async settled(requestIds: readonly string[], maxWait: number): Promise<string[]> {
      const deadline = performance.now() + maxWait;
      const ended = { requestId: { $in: [...requestIds] }, ending: { $ne: null } };
      const areRecorded = async () => (await usage.countDocuments(ended)) >= requestIds.length;
      const areAll = await until(areRecorded, deadline);
      await sweep();
      const isCounted = async () => (await usage.countDocuments({ counted: { $ne: true } })) === 0;
      const isAll = await until(isCounted, Math.max(deadline, performance.now() + maxWait / 2));
      return [
        ...(areAll ? [] : ['calls that were answered have no record']),
        ...(isAll ? [] : ['records are left that nobody counts']),
      ];
    },

    /** Records by request. */
    async byRequest(userIds: readonly string[]): Promise<Map<string, UsageDocument[]>> {
      const found = new Map<string, UsageDocument[]>();
      for (const record of await usage.find({ userId: { $in: [...userIds] } }).lean()) {
        found.set(record.requestId, [...(found.get(record.requestId) ?? []), record]);
      }
      return found;
    },

    async ledgerOf(userId: string, records: readonly UsageDocument[]): Promise<AccountLedger> {
      const [account, entries, counted, days] = await Promise.all([
        balances.findById(userId).lean(),
        ledger.find({ userId }).lean(),
        counters.find({ userId }).lean(),
        periods.find({ userId, period: 'daily' }).lean(),
      ]);
      return { userId, balance: account?.balance, entries, records, counters: counted, days };
    },

    /** Of each daily `usage.threshold` that was published, its percentage. */
    async publishedThresholds(userId: string): Promise<number[]> {
      const events = connection.collection<EventDocument>(`${prefix}events`);
      const found = await events.find({ userId, type: 'usage.threshold' }, { promoteBuffers: true }).toArray();
      const data = found.map(({ body }) => JSON.parse(String(body)).data as { period: string; threshold: number });
      return data.filter(({ period }) => period === 'daily').map(({ threshold }) => threshold);
    },
  };
}
