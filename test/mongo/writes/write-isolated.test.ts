import { expect } from 'chai';
import { writeIsolated } from '../../../src/mongo/batcher.ts';
import { TimeoutError } from '../../../src/mongo/periodic.ts';

describe('A write of several items that fails', () => {
  /** Writes numbers; a poisoned one fails whatever it is written with. */
  function watched(poison: readonly number[], failWith: (items: readonly number[]) => unknown = () => undefined) {
    const tries: (readonly number[])[] = [];
    const write = async (items: readonly number[]) => {
      tries.push(items);
      const failure = failWith(items);
      if (failure) throw failure;
      if (items.some((item) => poison.includes(item))) throw new RangeError('too large');
      return items.map((item) => item * 2);
    };
    return { tries, write };
  }
  const items = Array.from({ length: 100 }, (_, i) => i);

  it('because of one of them fails for that one alone, in a few more writes', async () => {
    const { tries, write } = watched([37]);
    const outcomes = await writeIsolated(items, { write });
    const failed = outcomes.flatMap((outcome, i) => ('error' in outcome ? [i] : []));
    expect(failed).to.deep.equal([37]);
    expect(outcomes[99]).to.deep.equal({ result: 198 });
    expect(tries.length).to.be.at.most(1 + 2 * Math.ceil(Math.log2(items.length)));
  });

  it('because of all of them costs no more than two writes for each', async () => {
    const { tries, write } = watched(items);
    await writeIsolated(items, { write });
    expect(tries.length).to.be.below(2 * items.length);
  });

  it('because of the database is not retried for each item, and fails for those not yet stored', async () => {
    const gone = new TimeoutError('gone');
    const whole = watched([], () => gone);
    expect(await writeIsolated(items, { write: whole.write })).to.deep.equal(items.map(() => ({ error: gone })));
    expect(whole.tries).to.have.length(1);

    let count = 0;
    const midway = watched([99], () => {
      count += 1;
      return count === 3 ? gone : undefined;
    });
    const outcomes = await writeIsolated(items, { write: midway.write });
    expect(outcomes[0]).to.deep.equal({ result: 0 });
    expect(outcomes.slice(50)).to.deep.equal(items.slice(50).map(() => ({ error: gone })));
    expect(midway.tries).to.have.length(3);
  });

  it('is told from the second try on that it may already have been made', async () => {
    const tries: boolean[] = [];
    await writeIsolated([1, 2], {
      write: async (part, isFirstTry) => {
        tries.push(isFirstTry);
        if (part.length > 1) throw new TypeError('poisoned');
        return part;
      },
    });
    expect(tries).to.deep.equal([true, false, false]);
  });
});
