import { randomInt } from 'node:crypto';
import { expect } from 'chai';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import type { AnsweredCall } from './crowd.ts';
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
      // what each of the two may have had to write when it was killed: all that it has answered since it had written the rest
      const recorded: AnsweredCall[] = [];
      const untilRecorded = async ({ url }: GatewayProcess, answeredBy: readonly AnsweredCall[]) => {
        const calls = answeredBy.filter((call) => call.url === url);
        await until(() =>
          scene.balances.expectRecorded(calls).then(
            () => true,
            () => false,
          ),
        );
        recorded.push(...calls);
      };
      const { answered, refused } = await scene.spend(
        {
          afterCalls: 450 + scene.random.below(500),
          async happen(before) {
            await untilRecorded(victim, before);
            victim.child.kill('SIGKILL');
          },
        },
        {
          afterCalls: 450 + scene.random.below(500),
          async happen(before) {
            await untilRecorded(counting, before);
            counting.child.send(scene.random.pick(deadlyCommands));
          },
        },
      );
      const ofSurvivor = answered.filter(({ url }) => url === survivor.url);
      await scene.balances.settled(ofSurvivor, 120_000);
      for (const { child } of [victim, counting]) expect(child.signalCode, 'how it ended').to.equal('SIGKILL');
      const left = await scene.balances.expectEven();
      expect(recorded.length, 'calls answered by the two').to.be.above(0);
      await scene.balances.expectRecorded([...ofSurvivor, ...recorded]);
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
