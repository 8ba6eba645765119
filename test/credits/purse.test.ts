import { expect } from 'chai';
import { Purse } from '../../src/credits/purse.ts';

describe('what a process may let an account spend', () => {
  it('ends where as much is held as there is, overdrawn by the last estimate alone', () => {
    const purse = new Purse(10);
    expect([purse.hold(6), purse.hold(6), purse.hold(6)]).to.deep.equal([true, true, false]);
    expect(purse.spokenFor).to.equal(12);
  });

  it('is free again when a call ends without cost', () => {
    const purse = new Purse(5);
    purse.hold(5);
    purse.release(5);
    expect(purse.hold(5)).to.equal(true);
  });

  it('stays spoken for after a call until its cost is booked', () => {
    const purse = new Purse(10);
    purse.hold(4);
    purse.spend(4, 'use_1', 10);
    expect(purse.hold(1)).to.equal(false);
    expect(purse.unbooked).to.deep.equal(['use_1']);
    expect(purse.costOf(['use_1', 'use_unknown'])).to.equal(10);
    purse.allow({ amount: 10, balance: 10 }, ['use_1', 'use_unknown']);
    expect([purse.spokenFor, purse.unbooked]).to.deep.equal([0, []]);
    expect(purse.hold(1)).to.equal(true);
  });

  it('is nothing when nothing is set aside', () => {
    const purse = new Purse(10);
    purse.allow({ amount: 0, balance: 0 }, []);
    expect(purse.hold(0)).to.equal(false);
  });

  it('is empty when the account has nothing left, and not when only less is set aside here than calls may cost', () => {
    const purse = new Purse(10);
    purse.hold(30);
    expect([purse.hold(1), purse.isEmpty]).to.deep.equal([false, false]);
    purse.allow({ amount: 0, balance: 50 }, []);
    expect([purse.hold(1), purse.isEmpty]).to.deep.equal([false, false]);
    purse.spend(30, 'use_1', 50);
    expect(purse.isEmpty).to.equal(true);
    purse.allow({ amount: 5, balance: 5 }, ['use_1']);
    expect(purse.isEmpty).to.equal(false);
    purse.spend(0, 'use_2', 5);
    expect(purse.isEmpty).to.equal(true);
    // it was booked just now, and the balance may show it or not
    purse.allow({ amount: 0, balance: 5 }, [], ['use_2']);
    expect(purse.isEmpty).to.equal(false);
  });

  it('runs low when half of what was left is spoken for, and at once where nobody knows what there is', () => {
    const purse = new Purse(10);
    expect(purse.isRunningLow).to.equal(true);
    purse.hold(20);
    purse.allow({ amount: 60, balance: 60 }, []);
    expect(purse.isRunningLow).to.equal(false);
    purse.hold(19);
    expect(purse.isRunningLow).to.equal(false);
    purse.hold(1);
    expect(purse.isRunningLow).to.equal(true);
  });
});
