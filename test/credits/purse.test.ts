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
    purse.settle(['use_1', 'use_unknown']);
    expect([purse.spokenFor, purse.unbooked]).to.deep.equal([0, []]);
    expect(purse.hold(1)).to.equal(true);
  });

  it('is nothing when nothing is set aside', () => {
    const purse = new Purse(10);
    purse.allow(0);
    expect(purse.hold(0)).to.equal(false);
  });
});
