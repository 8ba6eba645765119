import { expect } from 'chai';
import fc from 'fast-check';
import { createAccountShares } from '../../../src/deliveries/dispatcher/account-shares.ts';

describe('The shares of accounts', () => {
  function start(choices = {}) {
    const shares = createAccountShares({ concurrency: 200, perAccount: 50, maxHeld: 1_000, now: () => 0, ...choices });
    /** Sends as much as an account may at once; answers how many that were. */
    function fill(userId: string): number {
      const before = shares.sending;
      while (shares.of(userId).hasPlace()) {
        shares.of(userId).hold();
        shares.of(userId).begin();
      }
      return shares.sending - before;
    }
    function end(userId: string, duration: number): void {
      const share = shares.of(userId);
      share.end(duration);
      share.release();
    }
    return { shares, fill, end };
  }

  for (const [hanging, sizes] of [
    [1, [50]],
    [4, [50, 37, 28, 21]],
    [10, [50, 37, 28, 21, 16, 12, 9, 6, 5, 4]],
  ] as const) {
    it(`are ${sizes.join(', ')} of 200 places when ${hanging} hang, and one is left for the next account`, () => {
      const { fill, shares } = start();
      const taken = Array.from({ length: hanging }, (_, i) => fill(`usr_${i}`));

      expect(taken).to.deep.equal(sizes);
      expect(shares.of('usr_new').hasPlace()).to.equal(true);
    });
  }

  it('give a single account with fast receivers all but a tenth of the places, after a few answers', () => {
    const { fill, end, shares } = start();
    fill('usr_1');
    for (let answered = 0; answered < 150; answered += 1) {
      end('usr_1', 100);
      fill('usr_1');
    }

    expect(shares.sending).to.equal(180);
  });

  it('become equal for two accounts that are busy and fast', () => {
    const { fill, end, shares } = start();
    for (const userId of ['usr_1', 'usr_2']) {
      for (let answered = 0; answered < 400; answered += 1) {
        fill(userId);
        end(userId, 100);
      }
      fill(userId);
    }
    for (let turn = 0; turn < 1_000; turn += 1) {
      for (const userId of ['usr_1', 'usr_2']) {
        end(userId, 100);
        fill('usr_1');
        fill('usr_2');
      }
    }
    const [one, other] = ['usr_1', 'usr_2'].map((userId) => shares.of(userId).window.sending);

    expect(Math.abs((one ?? 0) - (other ?? 0))).to.be.below(20);
    expect(shares.sending).to.be.within(180, 199);
  });

  it('fall back to the first share when a fast account becomes slow', () => {
    const { fill, end, shares } = start();
    for (let answered = 0; answered < 300; answered += 1) {
      fill('usr_1');
      end('usr_1', 100);
    }
    expect(shares.of('usr_1').places()).to.equal(180);
    fill('usr_1');
    for (let ended = 0; ended < 20; ended += 1) end('usr_1', 30_000);

    expect(shares.of('usr_1').places()).to.equal(50);
  });

  it('give one account every place when its limit is as high as the total', () => {
    expect(start({ perAccount: 200 }).fill('usr_1')).to.equal(200);
    expect(start({ concurrency: 1, perAccount: 1 }).fill('usr_1')).to.equal(1);
    expect(start({ concurrency: 5, perAccount: 10_000 }).fill('usr_1')).to.equal(5);
  });

  it('keep correct sums for any order of steps, and starve no account while a place is free', () => {
    const step = fc.record({
      user: fc.integer({ min: 0, max: 12 }),
      what: fc.constantFrom('hold', 'begin', 'end', 'release'),
      duration: fc.constantFrom(1, 1_500, 2_500, 30_000),
    });
    const options = fc.record({
      concurrency: fc.integer({ min: 1, max: 60 }),
      perAccount: fc.integer({ min: 1, max: 70 }),
    });
    fc.assert(
      fc.property(options, fc.array(step, { maxLength: 400 }), ({ concurrency, perAccount }, steps) => {
        const shares = createAccountShares({ concurrency, perAccount, maxHeld: 5 * concurrency, now: () => 0 });
        const held = new Map<string, { held: number; sending: number }>();
        for (const { user, what, duration } of steps) {
          const userId = `usr_${user}`;
          const share = shares.of(userId);
          const model = held.get(userId) ?? { held: 0, sending: 0 };
          held.set(userId, model);
          const idle = model.held - model.sending;
          if (what === 'hold' && shares.held < 5 * concurrency && share.window.room() > 0) {
            share.hold();
            model.held += 1;
          } else if (what === 'begin' && idle > 0 && share.hasPlace()) {
            share.begin();
            model.sending += 1;
          } else if (what === 'end' && model.sending > 0) {
            share.end(duration);
            share.release();
            model.sending -= 1;
            model.held -= 1;
          } else if (what === 'release' && idle > 0) {
            share.release();
            model.held -= 1;
          }
          const sum = (field: 'held' | 'sending') => [...held.values()].reduce((all, one) => all + one[field], 0);
          expect([shares.held, shares.sending]).to.deep.equal([sum('held'), sum('sending')]);
          expect(shares.sending).to.be.at.most(concurrency);
          for (const [id, one] of held) {
            if (one.held > 0) expect(shares.of(id).window).to.include({ held: one.held, sending: one.sending });
            if (one.sending === 0) expect(shares.of(id).hasPlace()).to.equal(shares.sending < concurrency);
          }
          expect(shares.of('usr_new').hasPlace()).to.equal(shares.sending < concurrency);
        }
      }),
      { numRuns: 300 },
    );
  });
});
