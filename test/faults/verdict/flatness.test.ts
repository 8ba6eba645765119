import { expect } from 'chai';
import { canTellGrowth, growth, type Reading, slopeOf } from './flatness.ts';

const megabyte = 1024 * 1024;

/** One reading a minute. */
function readings(count: number, change: (minute: number) => Partial<Reading>): Reading[] {
  return Array.from({ length: count }, (_, minute) => {
    const handles = { TCPSocketWrap: 30, Timeout: 40 };
    const flat = { pid: 7, at: minute * 60_000, rss: 150 * megabyte, heapUsed: 40 * megabyte, handles, warnings: 0 };
    return { ...flat, ...change(minute) };
  });
}

describe('growth in a soak test', () => {
  it('is measured as the slope of the readings', () => {
    expect(slopeOf([])).to.equal(0);
    expect(slopeOf([[1, 5]])).to.equal(0);
    expect(
      slopeOf([
        [0, 1],
        [1, 3],
        [2, 5],
      ]),
    ).to.equal(2);
  });

  it('is not reported when memory goes up and down, peaks once or grows in the first half only', () => {
    expect(growth(readings(30, () => ({})))).to.deep.equal([]);
    expect(growth(readings(30, (i) => ({ heapUsed: (40 + (i % 3) * 5) * megabyte })))).to.deep.equal([]);
    expect(growth(readings(30, (i) => ({ heapUsed: (40 + Math.min(i, 12) * 5) * megabyte })))).to.deep.equal([]);
    expect(growth(readings(30, (i) => ({ handles: { Timeout: i === 29 ? 400 : 40 } }))), 'a peak').to.deep.equal([]);
    expect(growth(readings(3, (i) => ({ heapUsed: i * 100 * megabyte })))).to.deep.equal([]);
  });

  it('cannot be judged from six readings, but from eight', () => {
    expect(canTellGrowth(readings(6, () => ({})))).to.equal(false);
    expect(canTellGrowth(readings(8, () => ({})))).to.equal(true);
  });

  it('is reported separately for each measure', () => {
    expect(growth(readings(30, (i) => ({ rss: (150 + i * 4) * megabyte })))[0]).to.match(/^rss, MB of process 7/);
    expect(growth(readings(30, (i) => ({ heapUsed: (40 + i) * megabyte })))[0]).to.match(/^heap after gc/);
    expect(growth(readings(30, (i) => ({ handles: { TCPSocketWrap: 30 + i } })))[0]).to.match(/^handles/);
    expect(growth(readings(30, (i) => ({ handles: { Timeout: 40 + i } })))[0]).to.match(/^timers/);
    expect(growth(readings(30, () => ({ warnings: 1 })))[0]).to.match(/warned/);
  });
});
