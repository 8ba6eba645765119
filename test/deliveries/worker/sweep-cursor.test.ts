import { expect } from 'chai';
import { createSweepCursor } from '../../../src/deliveries/due.ts';

const place = (seconds: number) => ({ claimableAt: new Date(seconds * 1_000), webhookId: 'wh_1' });
const from = (seconds: number) => ({ claimableAt: new Date(seconds * 1_000), webhookId: '' });

describe('The sweep of due attempts', () => {
  it('starts at the beginning each time when one page holds all', () => {
    const cursor = createSweepCursor(() => 0);
    for (let i = 0; i < 3; i += 1) {
      expect(cursor.begin()).to.equal(null);
      cursor.reached(null);
    }
  });

  it('continues page after page', () => {
    const cursor = createSweepCursor(() => 0);
    cursor.begin();
    cursor.reached(place(100));
    expect(cursor.begin()).to.deep.equal(place(100));
    cursor.reached(place(200));
    expect(cursor.begin()).to.deep.equal(place(200));
  });

  it('then starts shortly before the last page, and for ten seconds skips what lies long before it', () => {
    let time = 0;
    const cursor = createSweepCursor(() => time);
    cursor.begin();
    cursor.reached(place(100));
    cursor.begin();
    cursor.reached(null);
    time = 9_999;
    expect(cursor.begin()).to.deep.equal(from(95));
    cursor.reached(place(150));
    cursor.begin();
    cursor.reached(null);
    expect(cursor.begin()).to.deep.equal(from(145));
    cursor.reached(null);
    time = 10_000;
    expect(cursor.begin()).to.equal(null);
  });
});
