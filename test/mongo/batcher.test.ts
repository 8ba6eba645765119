import { expect } from 'chai';
import { type BatcherOptions, createBatcher } from '../../src/mongo/batcher.ts';
import { until } from '../support/until.ts';

describe('A batcher', () => {
  /** A batcher whose writes end when the test says so. */
  function start(choices: Partial<BatcherOptions<number, string>> = {}) {
    const writes: { items: readonly number[]; end: () => void; fail: (error: Error) => void }[] = [];
    const batcher = createBatcher<number, string>({
      write: (items) =>
        new Promise((resolve, reject) => {
          writes.push({ items, end: () => resolve(items.map((item) => `result ${item}`)), fail: reject });
        }),
      maxSize: 100,
      ...choices,
    });
    return { batcher, writes, batches: () => writes.map(({ items }) => items) };
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  it('writes items of the same turn in one batch, and gives each caller its own result', async () => {
    const { batcher, writes, batches } = start();
    const results = Promise.all([batcher.add(1), batcher.add(2), batcher.add(3)]);
    await turn();
    writes[0]?.end();

    expect(await results).to.deep.equal(['result 1', 'result 2', 'result 3']);
    expect(batches()).to.deep.equal([[1, 2, 3]]);
  });

  it('collects the items that come during a write into the next batch', async () => {
    const { batcher, writes, batches } = start();
    const first = batcher.add(1);
    await turn();
    const others = [batcher.add(2), batcher.add(3)];
    await turn();
    expect(batches()).to.deep.equal([[1]]);
    writes[0]?.end();
    await first;
    await turn();
    writes[1]?.end();
    await Promise.all(others);

    expect(batches()).to.deep.equal([[1], [2, 3]]);
  });

  it('waits maxDelay for more items when the batch before had several, and not for a single caller', async () => {
    const { batcher, writes, batches } = start({ maxDelay: 500 });
    const alone = batcher.add(1);
    await turn();
    expect(batches()).to.deep.equal([[1]]);
    writes[0]?.end();
    await alone;

    const pair = [batcher.add(2), batcher.add(3)];
    await turn();
    writes[1]?.end();
    await Promise.all(pair);
    const late = [batcher.add(4)];
    await turn();
    late.push(batcher.add(5));
    await turn();
    expect(batches()).to.deep.equal([[1], [2, 3]]);
    await until(() => writes.length >= 3);
    writes[2]?.end();
    await Promise.all(late);

    expect(batches()).to.deep.equal([[1], [2, 3], [4, 5]]);
  });

  it('writes at once after a pause, and then waits until `interval` is over or enough items wait', async () => {
    const { batcher, writes, batches } = start({ interval: 500, enough: 3 });
    const startedAt = performance.now();
    const first = batcher.add(1);
    await turn();
    expect(batches()).to.deep.equal([[1]]);
    const few = [batcher.add(2)];
    writes[0]?.end();
    await first;
    few.push(batcher.add(3));
    await turn();
    expect(batches()).to.deep.equal([[1]]);
    await until(() => writes.length >= 2);
    // Node rounds down how long a timer takes and when it begins, each by less than 1 ms
    expect(performance.now() - startedAt).to.be.at.least(498);
    writes[1]?.end();
    await Promise.all(few);

    const some = [batcher.add(4), batcher.add(5)];
    await turn();
    expect(batches()).to.deep.equal([[1], [2, 3]]);
    some.push(batcher.add(6));
    await turn();
    expect(batches()).to.deep.equal([[1], [2, 3], [4, 5, 6]]);
    writes[2]?.end();
    await Promise.all(some);
  });

  it('writes at once what waits when it closes, and waits no more', async () => {
    const { batcher, writes, batches } = start({ interval: 60_000 });
    const first = batcher.add(1);
    await turn();
    writes[0]?.end();
    await first;
    const waiting = batcher.add(2);
    await turn();
    expect(batches()).to.deep.equal([[1]]);
    batcher.close();
    expect(batches()).to.deep.equal([[1], [2]]);
    writes[1]?.end();
    await waiting;
    const last = batcher.add(3);
    await turn();
    expect(batches()).to.deep.equal([[1], [2], [3]]);
    writes[2]?.end();
    await last;
  });

  it('writes batches of at most maxSize items, and no more of them at once than concurrency allows', async () => {
    const { batcher, writes, batches } = start({ maxSize: 2, concurrency: 2 });
    const all = [1, 2, 3, 4, 5].map((item) => batcher.add(item));
    await turn();
    expect(batches()).to.deep.equal([
      [1, 2],
      [3, 4],
    ]);
    writes[1]?.end();
    await all[3];
    writes[0]?.end();
    writes[2]?.end();
    await Promise.all(all);

    expect(batches()[2]).to.deep.equal([5]);
  });

  it('fails the callers of one batch when its write fails, and goes on with the next', async () => {
    const { batcher, writes } = start({ maxSize: 2 });
    const outcomes = Promise.allSettled([1, 2, 3].map((item) => batcher.add(item)));
    await turn();
    writes[0]?.fail(new Error('no primary'));
    await turn();
    writes[1]?.end();

    expect((await outcomes).map(({ status }) => status)).to.deep.equal(['rejected', 'rejected', 'fulfilled']);
  });

  it('times out a write that never ends, and goes on with the next', async () => {
    const { batcher, writes, batches } = start({ timeout: 1_000 });
    const lost = batcher.add(1).catch((error) => error.message);
    await turn();
    const next = batcher.add(2);
    expect(await lost).to.equal('the database has not answered within 1 s');
    await turn();
    expect(batches()).to.deep.equal([[1], [2]]);
    writes[1]?.end();
    expect(await next).to.equal('result 2');
  });

  it('does not write items whose deadline has passed when their turn comes', async () => {
    const deadlines = new Map<number, number>();
    const never = Number.POSITIVE_INFINITY;
    const { batcher, writes, batches } = start({ maxSize: 2, until: (item) => deadlines.get(item) ?? never });
    const first = batcher.add(1);
    await turn();
    const late = performance.now() + 20;
    deadlines
      .set(2, late)
      .set(4, late)
      .set(5, late + 60_000);
    const calls = [batcher.add(2), batcher.add(3), batcher.add(4), batcher.add(5)];
    const settled = Promise.allSettled(calls);
    while (performance.now() < late) await turn();
    writes[0]?.end();
    await first;
    await turn();
    writes[1]?.end();

    const outcomes = await settled;
    expect(batches()).to.deep.equal([[1], [3, 5]]);
    expect(outcomes.map(({ status }) => status)).to.deep.equal(['rejected', 'fulfilled', 'rejected', 'fulfilled']);
    expect((outcomes[0] as PromiseRejectedResult).reason)
      .to.be.an('error')
      .with.property('name', 'TimeoutError');
  });

  it('goes on after all waiting items missed their deadline', async () => {
    const deadline = performance.now();
    const { batcher, writes } = start({ until: (item) => (item === 1 ? deadline : Number.POSITIVE_INFINITY) });
    const late = batcher.add(1);
    await late.then(
      () => expect.fail('it was late'),
      () => {},
    );
    const next = batcher.add(2);
    await turn();
    writes[0]?.end();
    expect(await next).to.equal('result 2');
  });
});
