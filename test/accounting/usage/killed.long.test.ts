import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { freshDatabase } from '../../support/mongo.ts';
import { forkCompiled } from '../../support/processes/compiled-script.ts';
import { until } from '../../support/until.ts';
import { openLedger } from './ledger.ts';

const script = fileURLToPath(new URL('./counting-process.ts', import.meta.url));

describe('processes that count usage', function () {
  this.timeout(60_000);

  it('count and charge each record once and publish each event once, even if they are killed', async () => {
    const database = await freshDatabase();
    const { connection } = database;
    const ledger = await openLedger(connection);
    const started: ChildProcess[] = [];
    const start = async () => {
      const child = await forkCompiled(script, { uri: database.uri });
      started.push(child);
      await once(child, 'message');
      return child;
    };
    try {
      const users = 2;
      const records = 2_000;
      for (const userId of ['usr_0', 'usr_1']) {
        await ledger.credits.topUp({ userId, credits: 0.001, reference: userId });
      }
      const children = await Promise.all([start(), start(), start()]);
      for (let added = 0; added < records; added += 100) {
        await ledger.add(
          Array.from({ length: 100 }, (_, i) => ({ userId: `usr_${i % users}`, inputTokens: added + i })),
        );
        if (added % 800 === 700) children.pop()?.kill('SIGKILL');
        // the processes count meanwhile
        await sleep(10);
      }
      // where in its transaction each kill met its process is up to chance; the last one has all that is left to do
      const last = ledger.counter({ perUser: { unit: 'requests', daily: 1_000 } });
      for (const child of started) child.kill('SIGKILL');
      const isCounted = async () =>
        (await last().catch(() => 1)) === 0 && (await ledger.totals()).records.requests >= records;
      await until(isCounted, 50_000, 'all are counted');
      const { records: recorded, ...others } = await ledger.totals();
      expect(recorded.requests).to.equal(records);
      for (const [name, sums] of Object.entries(others)) expect(sums, name).to.deep.equal(recorded);
      const published = (await ledger.published()).map(({ user_id, threshold }) => `${user_id} ${threshold}`);
      expect(published.sort()).to.deep.equal(['usr_0 100', 'usr_0 80', 'usr_1 100', 'usr_1 80']);
      const told = ['usr_0', 'usr_1'].flatMap((userId) => [`${userId} credits.depleted`, `${userId} credits.low`]);
      const balance = 2_000 - recorded.inputTokens;
      expect(await ledger.charged()).to.deep.equal({ entries: records, sum: balance, balances: balance, told });
    } finally {
      for (const child of started) child.kill('SIGKILL');
      await database.drop();
    }
  });
});
