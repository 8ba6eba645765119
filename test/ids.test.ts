import { expect } from 'chai';
import { isId, newId } from '../src/ids.ts';

describe('New ids', () => {
  it('of one millisecond differ, and share no half of what is random, however many are made', () => {
    const ids = Array.from({ length: 2_000 }, () => newId('evt', 1_700_000_000_000));
    expect(ids.every((id) => isId('evt', id))).to.equal(true);
    const tails = ids.map((id) => id.slice(-16));
    const halves = new Set(tails.flatMap((tail) => [tail.slice(0, 8), tail.slice(8)]));
    expect(halves.size).to.equal(4_000);
  });

  it('sort by the time they are made at', () => {
    const times = [0, 1, 31, 32, 1_700_000_000_000, 1_700_000_000_001, 2 ** 48];
    const ids = times.map((time) => newId('evt', time));
    expect([...ids].sort()).to.deep.equal(ids);
  });
});
