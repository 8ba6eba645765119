import { getHeapSpaceStatistics } from 'node:v8';
import { expect } from 'chai';
import { InFlight } from '../src/pending-work.ts';
import { collectGarbage } from './support/processes/held-memory.ts';

const oldBytes = () => getHeapSpaceStatistics().find((space) => space.space_name === 'old_space')?.space_used_size ?? 0;

describe('What is under way', () => {
  it('is held once, until it is removed', () => {
    const inFlight = new InFlight<{ readonly name: string }>();
    const [a, b, c] = [{ name: 'a' }, { name: 'b' }, { name: 'c' }];
    for (const item of [a, b, c, b]) inFlight.add(item);
    expect([...inFlight]).to.have.members([a, b, c]);
    expect([inFlight.delete(a), inFlight.delete(a), inFlight.delete({ name: 'b' })]).to.deep.equal([
      true,
      false,
      false,
    ]);
    expect([...inFlight]).to.have.members([b, c]);
    expect([inFlight.delete(c), inFlight.delete(b), inFlight.size]).to.deep.equal([true, true, 0]);
    inFlight.add(a);
    expect([...inFlight]).to.deep.equal([a]);
  });

  it('may be removed during an iteration', () => {
    const inFlight = new InFlight<object>();
    const items = Array.from({ length: 10 }, () => ({}));
    for (const item of items) inFlight.add(item);
    const seen: object[] = [];
    for (const item of inFlight) {
      seen.push(item);
      inFlight.delete(item);
    }
    expect(seen).to.have.members(items);
    expect(inFlight.size).to.equal(0);
  });

  it('is not kept in memory after its removal by a collection that is an old object', () => {
    const inFlight = new InFlight<object>();
    const items = Array.from({ length: 16 }, () => ({}));
    for (const item of items) inFlight.add(item);
    collectGarbage();
    const before = oldBytes();
    for (let i = 0; i < 20_000; i += 1) {
      const item = { numbers: new Array(1_000).fill(i) };
      inFlight.add(item);
      items.push(item);
      inFlight.delete(items.shift() as object);
    }
    expect(oldBytes() - before).to.be.below(2_000_000);
  });
});
