import { expect } from 'chai';
import { growthOf } from './growth.ts';

const samples = (...values: number[]) => values.map((value, i) => ({ minute: i / 2, value }));
const tenth = { share: 0.1, amount: 0 };

describe('The growth of a series', () => {
  it('is that of its second half, by the median of the slopes between its samples', () => {
    // of 100, 102, 104, 130: 2, 2, 26, 2, 14, 10 each half minute, of which the median is 6
    expect(growthOf(samples(10, 20, 50, 90, 100, 102, 104, 130), tenth)).to.deep.equal({
      median: 103,
      perHour: 720,
      growth: 18,
      allowed: 10.3,
      isFlat: false,
    });
  });

  it('is flat where it grows by no more than the share of its median', () => {
    expect(growthOf(samples(0, 0, 100, 110), tenth)).to.include({
      median: 105,
      growth: 10,
      allowed: 10.5,
      isFlat: true,
    });
    expect(growthOf(samples(0, 0, 100, 112), tenth)).to.include({ growth: 12, isFlat: false });
  });

  it('is flat where a small value grows by no more than the amount', () => {
    const bound = { share: 0.1, amount: 5 };
    expect(growthOf(samples(0, 0, 1, 6), bound)).to.include({ allowed: 5, isFlat: true });
    expect(growthOf(samples(0, 0, 1, 7), bound)).to.include({ allowed: 5, isFlat: false });
  });

  it('is flat where one sample stands out, and where the series falls', () => {
    expect(growthOf(samples(0, 0, 0, 0, 0, 5, 5, 900, 5, 5), tenth)).to.include({ growth: 0, isFlat: true });
    expect(growthOf(samples(9, 9, 9, 3), tenth)).to.include({ growth: -6, isFlat: true });
  });

  it('needs two samples in the second half', () => {
    expect(() => growthOf(samples(1, 2), tenth)).to.throw(RangeError, '2 samples are too few');
    expect(growthOf(samples(1, 2, 2), tenth).isFlat).to.equal(true);
  });
});
