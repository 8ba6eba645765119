import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createWriteTime, slowWrite } from '../../src/mongo/probes/probes.ts';

const never = () => new Promise<void>(() => {});

describe('The time of a write', () => {
  it('is measured once for all who ask within 5 s', async () => {
    let writes = 0;
    const writeTime = createWriteTime(async () => {
      writes += 1;
      // the write is slow on purpose
      await sleep(20);
    });
    const [first, second] = await Promise.all([writeTime(), writeTime()]);
    expect(first).to.be.at.least(15).and.to.equal(second);
    expect(await writeTime()).to.equal(first);
    expect(writes).to.equal(1);
  });

  it('is unknown for a write that fails at once', async () => {
    const writeTime = createWriteTime(() => Promise.reject(new Error('unauthorized')));
    expect(await writeTime()).to.equal(undefined);
  });

  it('is how long a write has taken so far, and what it took when it is given up', async () => {
    const writeTime = createWriteTime(never, 1_200);
    const soFar = await writeTime();
    expect(soFar).to.be.above(slowWrite);
    // measures time: by then the write is given up
    await sleep(400);
    const atLast = await writeTime();
    // a timer may fire a millisecond early
    expect(atLast).to.be.at.least(1_198);
    expect(await writeTime()).to.equal(atLast);
  });
});
