import { expect } from 'chai';
import type { Arrival } from '../receivers.ts';
import { clockOffOf, type Disturbance, excusable } from './disturbances.ts';

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

describe('the attempts that a fault may have repeated', () => {
  it('are those in flight when it happened', () => {
    const came = [arrival(10_000), arrival(20_000)];
    expect(excusable(came, [death(10_003)])).to.equal(1);
    expect(excusable(came, [death(9_000), death(15_000), death(30_000)])).to.equal(0);
    expect(excusable([arrival(10_000, Number.POSITIVE_INFINITY)], [death(10_003)])).to.equal(1);
  });

  it('are at most one for each death of a process', () => {
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

  it('are also those that begin while a gateway may count from what it read of the clock before that was set', () => {
    const stepped = { from: 10_000, to: 12_000, once: false, clockOff: 20_000 };
    expect(excusable([arrival(14_000), arrival(21_000), arrival(23_000)], [stepped])).to.equal(2);
  });
});

describe('the error that a wrong clock may cause in the recorded times of a delivery', () => {
  const stepped = { from: 10_000, to: 12_000, once: false, clockOff: 20_000 };

  it('is the error of the clock if the delivery arrived meanwhile or was delayed by it, and otherwise zero', () => {
    expect(clockOffOf([arrival(11_000)], [stepped])).to.equal(20_000);
    expect(clockOffOf([arrival(31_000)], [stepped])).to.equal(20_000);
    expect(clockOffOf([arrival(33_000)], [stepped])).to.equal(0);
    expect(clockOffOf([arrival(1_000)], [stepped])).to.equal(0);
    expect(clockOffOf([arrival(11_000)], [{ from: 10_000, to: 12_000, once: false }])).to.equal(0);
  });
});
