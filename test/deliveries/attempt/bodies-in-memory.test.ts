import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import { freshDatabase } from '../../support/mongo.ts';
import { collectGarbage } from '../../support/processes/held-memory.ts';
import { eventually } from '../../support/until.ts';
import { keys, readStored, startAttempts, startScheduler } from './bodies.ts';

/** The largest that there are. */
const large = 256 * 1024;
/** So many of them may be read ahead: 32 MiB. */
const aheadAtMost = 128;

describe('Bodies in memory', () => {
  it('of attempts that wait for a place have 32 MiB together, and the next ones are read as these are sent', async () => {
    const { attempts, bodies } = startAttempts(large);
    const claimed = keys(2 * aheadAtMost).map((key) => attempts.prepare(key));
    expect(await Promise.all(claimed.map(({ isClaimed }) => isClaimed))).to.not.include(false);
    await nextTurn();
    expect(bodies).to.have.length(aheadAtMost);

    const ready = await Promise.all(claimed.slice(0, 3).map(async ({ prepared }) => (await prepared).ready));
    await Promise.all([ready[0]?.send(), ready[1]?.send(), ready[2]?.giveBack()]);
    await nextTurn();
    expect(bodies).to.have.length(aheadAtMost + 3);
  });

  it('count as what they have, once they are read', async () => {
    const { attempts, bodies } = startAttempts(1_000);
    const claimed = keys(2_000).map((key) => attempts.prepare(key));
    await Promise.all(claimed.map(({ prepared }) => prepared));
    expect(bodies).to.have.length(2_000);
  });

  it('take no room when they cannot be read, or nothing is sent', async () => {
    let reads = 0;
    const { attempts } = startAttempts(large, {
      async body() {
        reads += 1;
        if (reads % 2 === 0) throw new Error('the database is away');
        return null;
      },
    });
    for (let i = 0; i < 3; i += 1) {
      await Promise.all(keys(aheadAtMost).map((key) => attempts.prepare(key).prepared));
    }
    expect(reads).to.equal(3 * aheadAtMost);
  });

  it('are gone when their requests have ended, while the outcomes wait for the database', async () => {
    const outcomes: (() => void)[] = [];
    const { attempts, bodies } = startAttempts(large, {
      record: () => new Promise((resolve) => outcomes.push(() => resolve('recorded'))),
    });
    const scheduler = startScheduler(attempts, 20);
    await eventually(
      async () => outcomes.length,
      (count) => count === 20,
    );
    collectGarbage();
    expect(bodies.filter((body) => body.deref() !== undefined)).to.have.length(0);
    for (const end of outcomes) end();
    await scheduler.close();
  });

  it('keep no others there, with which the database has sent them in one reply', async () => {
    const database = await freshDatabase();
    const { read, taken } = await readStored(database.connection, 4, large);
    const bodies = [...read, ...taken];
    expect(bodies.map((body) => body?.buffer.byteLength)).to.deep.equal(bodies.map(() => large));
    expect(bodies).to.have.length(8);
    await database.drop();
  });
});
