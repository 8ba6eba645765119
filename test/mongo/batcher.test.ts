import { expect } from 'chai';
import { createGroup } from '../../src/mongo/batcher.ts';

describe('A group commit', () => {
  /** A group whose writes end when the test says so. */
  function start(choices: { most?: number; atOnce?: number; linger?: number; within?: number } = {}) {
    const writes: { items: readonly number[]; end: () => void; fail: (error: Error) => void }[] = [];
    const group = createGroup<number, string>({
      write: (items) =>
        new Promise((resolve, reject) => {
          writes.push({ items, end: () => resolve(items.map((item) => `result ${item}`)), fail: reject });
        }),
      most: 100,
      ...choices,
    });
    return { group, writes, groups: () => writes.map(({ items }) => items) };
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  it('writes what comes in one turn at once, and gives each caller its own result', async () => {
    const { group, writes, groups } = start();
    const results = Promise.all([group.add(1), group.add(2), group.add(3)]);
    await turn();
    writes[0]?.end();

    expect(await results).to.deep.equal(['result 1', 'result 2', 'result 3']);
    expect(groups()).to.deep.equal([[1, 2, 3]]);
  });

  it('gathers what comes while a write is on its way', async () => {
    const { group, writes, groups } = start();
    const first = group.add(1);
    await turn();
    const others = [group.add(2), group.add(3)];
    await turn();
    expect(groups()).to.deep.equal([[1]]);
    writes[0]?.end();
    await first;
    await turn();
    writes[1]?.end();
    await Promise.all(others);

    expect(groups()).to.deep.equal([[1], [2, 3]]);
  });

  it('waits a moment for company where the group before had some, and not for who comes alone', async () => {
    const { group, writes, groups } = start({ linger: 40 });
    const alone = group.add(1);
    await turn();
    expect(groups()).to.deep.equal([[1]]);
    writes[0]?.end();
    await alone;

    const pair = [group.add(2), group.add(3)];
    await turn();
    writes[1]?.end();
    await Promise.all(pair);
    const late = [group.add(4)];
    await turn();
    late.push(group.add(5));
    await turn();
    expect(groups()).to.deep.equal([[1], [2, 3]]);
    while (writes.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
    writes[2]?.end();
    await Promise.all(late);

    expect(groups()).to.deep.equal([[1], [2, 3], [4, 5]]);
  });

  it('keeps groups to their size, and no more of them on their way than allowed', async () => {
    const { group, writes, groups } = start({ most: 2, atOnce: 2 });
    const all = [1, 2, 3, 4, 5].map((item) => group.add(item));
    await turn();
    expect(groups()).to.deep.equal([
      [1, 2],
      [3, 4],
    ]);
    writes[1]?.end();
    await all[3];
    writes[0]?.end();
    writes[2]?.end();
    await Promise.all(all);

    expect(groups()[2]).to.deep.equal([5]);
  });

  it('fails the callers of one group when its write fails, and goes on with the next', async () => {
    const { group, writes } = start({ most: 2 });
    const outcomes = Promise.allSettled([1, 2, 3].map((item) => group.add(item)));
    await turn();
    writes[0]?.fail(new Error('no primary'));
    await turn();
    writes[1]?.end();

    expect((await outcomes).map(({ status }) => status)).to.deep.equal(['rejected', 'rejected', 'fulfilled']);
  });

  it('lets nobody wait for good behind a write that never ends', async () => {
    const { group, writes, groups } = start({ within: 20 });
    const lost = group.add(1).catch((error) => error.message);
    await turn();
    const next = group.add(2);
    expect(await lost).to.equal('the database has not answered within 0.02 s');
    await turn();
    expect(groups()).to.deep.equal([[1], [2]]);
    writes[1]?.end();
    expect(await next).to.equal('result 2');
  });

  it('writes nothing that nobody waits for any more when its turn comes', async () => {
    const { group, writes, groups } = start({ most: 2 });
    const first = group.add(1);
    await turn();
    const late = performance.now() + 20;
    const calls = [group.addUntil(2, late), group.add(3), group.addUntil(4, late), group.addUntil(5, late + 60_000)];
    const settled = Promise.allSettled(calls);
    while (performance.now() < late) await turn();
    writes[0]?.end();
    await first;
    await turn();
    writes[1]?.end();

    const outcomes = await settled;
    expect(groups()).to.deep.equal([[1], [3, 5]]);
    expect(outcomes.map(({ status }) => status)).to.deep.equal(['rejected', 'fulfilled', 'rejected', 'fulfilled']);
    expect((outcomes[0] as PromiseRejectedResult).reason)
      .to.be.an('error')
      .with.property('name', 'UnansweredError');
  });

  it('goes on after a moment in which all that waited were late', async () => {
    const { group, writes } = start();
    const late = group.addUntil(1, performance.now());
    await late.then(
      () => expect.fail('it was late'),
      () => {},
    );
    const next = group.add(2);
    await turn();
    writes[0]?.end();
    expect(await next).to.equal('result 2');
  });
});
