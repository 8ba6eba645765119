import { expect } from 'chai';
import { clockOffOf, type Disturbance, excusable } from './disturbances.ts';
import type { Arrival } from './receivers.ts';

const arrival = (at: number, answeredAt = at + 5): Arrival => ({
  webhook: 'good',
  eventId: 'evt_1',
  at,
  answeredAt,
  status: 200,
  signatureRight: true,
  bodyHash: '',
});
const death = (at: number): Disturbance => ({ from: at, to: at, once: true });

describe('the attempts that a fault may have made again', () => {
  it('are those in flight when it happened', () => {
    const came = [arrival(10_000), arrival(20_000)];
    expect(excusable(came, [death(10_003)])).to.equal(1);
    expect(excusable(came, [death(9_000), death(15_000), death(30_000)])).to.equal(0);
    expect(excusable([arrival(10_000, Number.POSITIVE_INFINITY)], [death(10_003)])).to.equal(1);
  });

  it('are no more for one death than one, and as many as there is a death for each of', () => {
    const came = [arrival(10_000), arrival(10_200), arrival(10_400)];
    expect(excusable(came, [death(10_500)])).to.equal(1);
    expect(excusable(came, [death(10_500), death(10_501)])).to.equal(2);
    // the later death can only be met by the last, which leaves the earlier ones to the others
    expect(excusable([arrival(10_000), arrival(12_000)], [death(12_500), death(14_500)])).to.equal(2);
  });

  it('are all of those that a broken database kept from being recorded', () => {
    const broken = { from: 10_000, to: 12_000, once: false };
    expect(excusable([arrival(9_000), arrival(10_500), arrival(11_000), arrival(20_000)], [broken])).to.equal(3);
  });
});

describe('by how much the recorded times of a delivery may be wrong', () => {
  const stepped = { from: 10_000, to: 12_000, once: false, clockOff: 20_000 };

  it('is what the clock was, for what arrived meanwhile or was put off by it', () => {
    expect(clockOffOf([arrival(11_000)], [stepped])).to.equal(20_000);
    expect(clockOffOf([arrival(31_000)], [stepped])).to.equal(20_000);
    expect(clockOffOf([arrival(33_000)], [stepped])).to.equal(0);
    expect(clockOffOf([arrival(1_000)], [stepped])).to.equal(0);
    expect(clockOffOf([arrival(11_000)], [{ from: 10_000, to: 12_000, once: false }])).to.equal(0);
  });
});
