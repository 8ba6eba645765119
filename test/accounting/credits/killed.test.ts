import { randomInt } from 'node:crypto';
import { expect } from 'chai';
import { freshDatabase } from '../../support/mongo.ts';
import type { DeadlyCommand } from './gateway-process.ts';
import type { GatewayProcess } from './processes.ts';
import { openScene, overdraft } from './scene.ts';

/** Where a process can die in the transaction that counts and charges. */
const deadlyCommands: readonly DeadlyCommand[] = [
  { command: 'update', collection: 'gateway_usage' },
  { command: 'update', collection: 'gateway_usage_counters' },
  { command: 'update', collection: 'gateway_usage_periods' },
  { command: 'insert', collection: 'gateway_credit_ledger' },
  { command: 'findAndModify', collection: 'gateway_credit_accounts' },
  { command: 'commitTransaction' },
];
/** What a process had not yet written when it died; far more than it takes to write it. Milliseconds. */
const lastMoments = 1_500;

describe('an account that spends through three processes, two of which are killed', function () {
  this.timeout(300_000);

  it('is charged once for each record, gets each event once, overdraws within the limit and is then refused', async () => {
    // the random numbers repeat with the seed, the timing of the processes does not
    const seed = Number(process.env.CROWD_SEED ?? randomInt(2 ** 31));
    console.log(`      seed ${seed}`);
    const database = await freshDatabase();
    const scene = await openScene(database.uri, seed, 3);
    try {
      const [victim, counting, survivor] = scene.processes as [GatewayProcess, GatewayProcess, GatewayProcess];
      const diedAt = new Map<string, number>();
      for (const { url, died } of [victim, counting]) void died.then(() => diedAt.set(url, performance.now()));
      const { answered, refused } = await scene.spend(
        { afterCalls: 450 + scene.random.below(500), happen: () => victim.child.kill('SIGKILL') },
        {
          afterCalls: 450 + scene.random.below(500),
          happen: () => counting.child.send(scene.random.pick(deadlyCommands)),
        },
      );
      const ofSurvivor = answered.filter(({ url }) => url === survivor.url);
      await scene.balances.settled(ofSurvivor, 120_000);
      for (const { child } of [victim, counting]) expect(child.signalCode, 'how it ended').to.equal('SIGKILL');
      const left = await scene.balances.expectEven();
      await scene.balances.expectRecorded(
        answered.filter(({ url, endedAt }) => endedAt < (diedAt.get(url) ?? Number.POSITIVE_INFINITY) - lastMoments),
      );
      expect(refused, 'refused').to.be.above(0);
      expect(left / 1_000_000, 'credits left').to.be.within(-3 * overdraft, 0);
      const calls = scene.upstream.requests.length;
      expect(await scene.statusesAt(survivor.url)).to.deep.equal(Array(8).fill(402));
      expect(scene.upstream.requests).to.have.length(calls);
    } finally {
      await scene.close();
      await database.drop();
    }
  });
});
