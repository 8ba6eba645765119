import { expect } from 'chai';
import { freeSlot } from '../../src/mongo/free-slot.ts';

describe('the slots of an account', () => {
  it('are given out until none is free', () => {
    const taken = new Set<number>();
    for (let i = 0; i < 20; i += 1) {
      const slot = freeSlot(taken, 20);
      expect(slot).to.be.within(0, 19);
      expect(taken.has(slot as number)).to.equal(false);
      taken.add(slot as number);
    }
    expect(freeSlot(taken, 20)).to.equal(null);
  });

  it('are none when as many are taken as there may be, whatever their numbers', () => {
    expect(freeSlot(new Set([0, 7, 8]), 3)).to.equal(null);
    expect(freeSlot(new Set([0, 7]), 3)).to.be.oneOf([1, 2]);
  });
});
