import { expect } from 'chai';
import { readMeasured } from './measured.ts';

describe('docs/scale.md', () => {
  it('shows figures of whole runs of the benchmarks, not of a trial', () => {
    const { scale, soak } = readMeasured();
    expect([scale.rounds >= 3, scale.seconds >= 5, soak.minutes >= 30]).to.deep.equal([true, true, true]);
    for (const webhooks of [1, 10]) {
      const rows = scale.deliveries.filter((row) => row.webhooks === webhooks);
      expect(rows.map(({ processes }) => processes)).to.deep.equal([1, 2, 4, 8]);
    }
    expect(scale.relay.map(({ workers }) => workers)).to.deep.equal([1, 2]);
  });
});
