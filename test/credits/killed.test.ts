import type { ChildProcess } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { expect } from 'chai';
import type { Random } from '../faults/random.ts';
import { freshDatabase } from '../support/mongo.ts';
import type { DeadlyCommand } from './gateway-process.ts';
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
const lastMoments = 3_000;

describe('an account that eight clients spend at two processes, one of which is killed', function () {
  this.timeout(300_000);

  /** @param dies how the process does; the random numbers repeat with the seed, the timing of the processes does not */
  async function holds(dies: (child: ChildProcess, random: Random) => void): Promise<void> {
    const seed = Number(process.env.CROWD_SEED ?? randomInt(2 ** 31));
    console.log(`      seed ${seed}`);
    const database = await freshDatabase();
    const scene = await openScene(database.uri, seed);
    try {
      const [victim, survivor] = scene.processes;
      const killAt = 900 + scene.random.below(1_000);
      let killedAt = Number.POSITIVE_INFINITY;
      void victim.died.then(() => {
        killedAt = performance.now();
      });
      const { answered, refused } = await scene.spend({
        afterCalls: killAt,
        happen: () => dies(victim.child, scene.random),
      });
      await scene.books.settled(
        answered.filter(({ url }) => url === survivor.url),
        120_000,
      );
      expect(victim.child.signalCode, 'how the process ended').to.equal('SIGKILL');
      const left = await scene.books.expectEven();
      await scene.books.expectRecorded(
        answered.filter(({ url, endedAt }) => url === survivor.url || endedAt < killedAt - lastMoments),
      );
      expect(refused, 'refused').to.be.above(0);
      expect(left / 1_000_000, 'credits left').to.be.within(-overdraft, 0);
      const calls = scene.upstream.requests.length;
      expect(await scene.statusesAt(survivor.url)).to.deep.equal(Array(8).fill(402));
      expect(scene.upstream.requests).to.have.length(calls);
    } finally {
      await scene.close();
      await database.drop();
    }
  }

  it('is charged for each record once, told once of each fall and threshold, overdraws by no more than was held, and is refused then', () =>
    holds((child) => child.kill('SIGKILL')));

  it('is so too when the process dies in the midst of counting and charging', () =>
    holds((child, random) => child.send(random.pick(deadlyCommands))));
});
