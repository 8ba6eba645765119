import { expect } from 'chai';
import { outageOf } from './outage-day.ts';

const short = 1;
const long = 12;

describe('A simulated day with a tenth of the receivers down', () => {
  const results = new Map([short, long].map((hours) => [hours, outageOf(hours)]));
  const of = (hours: number) => results.get(hours) ?? expect.fail('not simulated');

  it('loses nothing: what was published is delivered or has failed', () => {
    for (const { published, delivered, failed } of results.values()) expect(delivered + failed).to.equal(published);
  });

  it('makes six attempts at most, and gives up none before the last', () => {
    expect(of(short)).to.include({ failed: 0 });
    expect(of(short).mostAttempts).to.be.at.most(5);
    // the waits of six attempts are 10 h 36 min together
    expect(of(long).mostAttempts).to.equal(6);
    expect(of(long).failed).to.be.above(0);
  });

  it('ends every waiting delivery within the longest retry delay after the receivers return', () => {
    for (const { recovery } of results.values()) expect(recovery).to.be.within(0, 8 * 3_600 + 60);
    expect(of(long).peakPending).to.be.above(of(short).peakPending);
  });

  it('has the same result for the same seed, and another result for another seed', () => {
    expect(outageOf(short)).to.deep.equal(of(short));
    expect(outageOf(short, 2).published).to.not.equal(of(short).published);
  });
});
