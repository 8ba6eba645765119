import { expect } from 'chai';
import fc from 'fast-check';
import { crossings } from '../../../src/accounting/thresholds.ts';

describe('the thresholds of a quota', () => {
  it('are reached by the amount that brings the sum there; one amount may reach several', () => {
    expect(
      crossings({ before: 0, amounts: [79, 1, 5], quota: 100, thresholds: [80, 100], announced: [] }),
    ).to.deep.equal([{ threshold: 80, usage: 80 }]);
    expect(
      crossings({ before: 70, amounts: [45, 10], quota: 100, thresholds: [100, 80], announced: [] }),
    ).to.deep.equal([
      { threshold: 80, usage: 115 },
      { threshold: 100, usage: 115 },
    ]);
  });

  it('are reported with two decimals', () => {
    expect(crossings({ before: 0, amounts: [2], quota: 3, thresholds: [50], announced: [] })).to.deep.equal([
      { threshold: 50, usage: 66.67 },
    ]);
  });

  it('are not reported twice, but are reported late when a smaller quota puts them in the past', () => {
    expect(crossings({ before: 90, amounts: [5], quota: 100, thresholds: [80, 100], announced: [80] })).to.deep.equal(
      [],
    );
    expect(crossings({ before: 90, amounts: [5], quota: 100, thresholds: [80, 100], announced: [] })).to.deep.equal([
      { threshold: 80, usage: 95 },
    ]);
    expect(crossings({ before: 90, amounts: [], quota: 100, thresholds: [80, 100], announced: [] })).to.deep.equal([]);
  });

  it('are the same however the amounts are split into batches', () => {
    const amounts = fc.array(fc.nat(60), { maxLength: 30 });
    const thresholds = fc.uniqueArray(fc.integer({ min: 1, max: 150 }), { maxLength: 4 });
    fc.assert(
      fc.property(amounts, thresholds, fc.integer({ min: 1, max: 500 }), fc.nat(10), (all, wanted, quota, cut) => {
        const expected = new Map<number, number>();
        let sum = 0;
        for (const amount of all) {
          sum += amount;
          for (const one of wanted) {
            if (!expected.has(one) && (sum / quota) * 100 >= one - 1e-9) expected.set(one, sum);
          }
        }
        const found: [number, number][] = [];
        let before = 0;
        for (let i = 0; i < all.length; i += cut + 1) {
          const batch = all.slice(i, i + cut + 1);
          const announced = found.map(([threshold]) => threshold);
          for (const { threshold, usage } of crossings({
            before,
            amounts: batch,
            quota,
            thresholds: wanted,
            announced,
          })) {
            found.push([threshold, usage]);
          }
          before += batch.reduce((total, amount) => total + amount, 0);
        }
        const rounded = [...expected].map(([one, used]) => [one, Math.round((used / quota) * 10_000) / 100]);
        const byThreshold = (a: number[], b: number[]) => Number(a[0]) - Number(b[0]);
        expect(found.sort(byThreshold)).to.deep.equal(rounded.sort(byThreshold));
      }),
    );
  });
});
