import { expect } from 'chai';
import type { Arrival } from '../receivers.ts';
import { longestFirstArrival } from './stalls.ts';

const arrival = (eventId: string, webhook: string, at: number): Arrival => ({
  webhook,
  eventId,
  at,
  answeredAt: at + 5,
  status: 200,
  signatureRight: true,
  bodyHash: '',
});

describe('the longest first arrival', () => {
  it('is the longest time from acceptance to the first attempt of a delivery, whatever comes later', () => {
    const accepted = new Map([
      ['evt_1', 1_000],
      ['evt_2', 2_000],
    ]);
    const came = [arrival('evt_1', 'a', 9_000), arrival('evt_1', 'a', 1_200), arrival('evt_2', 'b', 2_700)];
    expect(longestFirstArrival(accepted, came)).to.equal(700);
    expect(longestFirstArrival(accepted, [arrival('evt_3', 'a', 9_000)])).to.equal(0);
    expect(longestFirstArrival(accepted, [arrival('evt_1', 'a', 990)])).to.equal(0);
  });
});
