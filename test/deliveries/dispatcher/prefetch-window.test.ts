import { expect } from 'chai';
import { createPrefetchWindow } from '../../../src/deliveries/dispatcher/prefetch-window.ts';

describe('The prefetch window', () => {
  function start() {
    let time = 0;
    const window = createPrefetchWindow({ places: () => 10, now: () => time });
    return {
      window,
      pass(ms: number) {
        time += ms;
      },
    };
  }

  it('has room for its places and as many attempts ahead', () => {
    expect(start().window.room()).to.equal(20);
  });

  it('grows the faster the receiver answers, up to forty times its places', () => {
    const { window } = start();
    for (let i = 0; i < 100; i += 1) window.ended(150);
    expect(window.room()).to.be.within(29, 30);
    for (let i = 0; i < 100; i += 1) window.ended(1);

    expect(window.room()).to.equal(410);
  });

  it('is low once half of the prefetched attempts are used', () => {
    const { window } = start();
    window.held = 15;
    expect(window.isLow()).to.equal(false);
    window.held = 14;

    expect(window.isLow()).to.equal(true);
  });

  it('is low with a single free place when nothing is prefetched', () => {
    const { window } = start();
    window.stuck();
    Object.assign(window, { sending: 10, held: 10 });
    expect(window.isLow()).to.equal(false);
    window.held = 9;

    expect(window.isLow()).to.equal(true);
  });

  it('hardly prefetches when the receiver is slow', () => {
    const { window } = start();
    for (let i = 0; i < 100; i += 1) window.ended(2_000);

    expect(window.room()).to.equal(11);
  });

  it('prefetches nothing while all its places hang', () => {
    const { window, pass } = start();
    Object.assign(window, { sending: 10, held: 10 });
    expect(window.room()).to.equal(10);
    pass(301);
    expect(window.room()).to.equal(0);
    Object.assign(window, { sending: 9, held: 9 });

    expect(window.room()).to.be.above(0);
  });

  it('prefetches nothing after an attempt found no place in time, until answers are fast again', () => {
    const { window } = start();
    window.stuck();
    expect(window.room()).to.equal(10);
    for (let i = 0; i < 100; i += 1) window.ended(1);

    expect(window.room()).to.equal(410);
  });
});
