import { randomInt } from 'node:crypto';
import { expect } from 'chai';
import { type Cluster, startCluster } from '../../faults/cluster/cluster.ts';
import { largestEstimate, openScene } from './scene.ts';

describe('an account that spends through two processes while the primary of the database steps down', function () {
  this.timeout(300_000);
  let cluster: Cluster;

  before(async () => {
    cluster = await startCluster();
  });
  after(() => cluster?.stop());

  it('is charged once for every answered call, gets each event once, and is refused at the end', async () => {
    const seed = Number(process.env.CROWD_SEED ?? randomInt(2 ** 31));
    console.log(`      seed ${seed}`);
    // what a host asks for by itself is not enough to survive this
    const scene = await openScene(`${cluster.uri}&w=1`, seed, 2);
    try {
      const before = (await cluster.primary()).node.host;
      const afterCalls = 450 + scene.random.below(500);
      const { answered, refused } = await scene.spend({
        afterCalls,
        happen: () => cluster.admin.command({ replSetStepDown: 10, force: true }),
      });
      expect((await cluster.primary()).node.host, 'primary').to.not.equal(before);
      await scene.balances.settled(answered, 120_000);
      const left = await scene.balances.expectEven();
      await scene.balances.expectRecorded(answered);
      expect(await scene.balances.records(), 'records').to.equal(scene.upstream.requests.length);
      expect(refused, 'refused').to.be.above(0);
      // the last calls of the eight clients may have been refused beside others that were under way
      expect(left / 1_000_000, 'credits left').to.be.within(0, 8 * largestEstimate);
      for (const { url } of scene.processes) await scene.spendRest(url);
    } finally {
      await scene.close();
    }
  });
});
