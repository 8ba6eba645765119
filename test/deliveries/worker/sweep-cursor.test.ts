import { expect } from 'chai';
import { createPasses } from '../../../src/deliveries/worker/sweep-cursor.ts';

const place = (seconds: number) => ({ claimableAt: new Date(seconds * 1_000), webhookId: 'wh_1' });
const from = (seconds: number) => ({ claimableAt: new Date(seconds * 1_000), webhookId: '' });

describe('Looking through what is due', () => {
  it('begins at the beginning every time where one page holds it all', () => {
    const passes = createPasses(() => 0);
    for (let i = 0; i < 3; i += 1) {
      expect(passes.begin()).to.equal(null);
      passes.reached(null);
    }
  });

  it('goes on page after page to the end', () => {
    const passes = createPasses(() => 0);
    passes.begin();
    passes.reached(place(100));
    expect(passes.begin()).to.deep.equal(place(100));
    passes.reached(place(200));
    expect(passes.begin()).to.deep.equal(place(200));
  });

  it('begins shortly before the last page afterwards, and for ten seconds leaves what lies long before it', () => {
    let time = 0;
    const passes = createPasses(() => time);
    passes.begin();
    passes.reached(place(100));
    passes.begin();
    passes.reached(null);
    time = 9_999;
    expect(passes.begin()).to.deep.equal(from(95));
    passes.reached(place(150));
    passes.begin();
    passes.reached(null);
    expect(passes.begin()).to.deep.equal(from(145));
    passes.reached(null);
    time = 10_000;
    expect(passes.begin()).to.equal(null);
  });
});
