import { expect } from 'chai';
import { createLane } from '../../src/deliveries/lane.ts';

describe('The lane of a webhook', () => {
  function start() {
    let time = 0;
    const lane = createLane(10, () => time);
    return {
      lane,
      pass(ms: number) {
        time += ms;
      },
    };
  }

  it('has room for its places and as many ahead', () => {
    expect(start().lane.room()).to.equal(20);
  });

  it('is claimed further ahead the quicker it answers, up to forty times its places', () => {
    const { lane } = start();
    for (let i = 0; i < 100; i += 1) lane.ended(150);
    expect(lane.room()).to.be.within(29, 30);
    for (let i = 0; i < 100; i += 1) lane.ended(1);

    expect(lane.room()).to.equal(410);
  });

  it('is low once half of what is claimed ahead is used up', () => {
    const { lane } = start();
    lane.held = 15;
    expect(lane.isLow()).to.equal(false);
    lane.held = 14;

    expect(lane.isLow()).to.equal(true);
  });

  it('is low with a single place free when it is claimed nothing ahead', () => {
    const { lane } = start();
    lane.stuck();
    Object.assign(lane, { sending: 10, held: 10 });
    expect(lane.isLow()).to.equal(false);
    lane.held = 9;

    expect(lane.isLow()).to.equal(true);
  });

  it('is claimed hardly ahead when it is slow', () => {
    const { lane } = start();
    for (let i = 0; i < 100; i += 1) lane.ended(2_000);

    expect(lane.room()).to.equal(11);
  });

  it('is claimed nothing ahead while all its places hang', () => {
    const { lane, pass } = start();
    Object.assign(lane, { sending: 10, held: 10 });
    expect(lane.room()).to.equal(10);
    pass(301);
    expect(lane.room()).to.equal(0);
    Object.assign(lane, { sending: 9, held: 9 });

    expect(lane.room()).to.be.above(0);
  });

  it('is claimed nothing ahead after an attempt found no place in time, until it answers quickly again', () => {
    const { lane } = start();
    lane.stuck();
    expect(lane.room()).to.equal(10);
    for (let i = 0; i < 100; i += 1) lane.ended(1);

    expect(lane.room()).to.equal(410);
  });
});
