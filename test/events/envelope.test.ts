import { expect } from 'chai';
import { createContent } from '../../src/events/service.ts';
import { GatewayError } from '../../src/index.ts';

describe('an envelope', () => {
  it('is JSON with id, type, created and data, in that order', () => {
    const envelope = createContent('credits.low', { user_id: 'usr_1' }, Date.UTC(2026, 0, 2, 3, 4, 5, 6));
    expect(envelope.body.toString()).to.equal(
      `{"id":"${envelope._id}","type":"credits.low","created":"2026-01-02T03:04:05.006Z","data":{"user_id":"usr_1"}}`,
    );
  });

  it('has the same content hash whatever the order of its keys', () => {
    const [one, other] = [
      { a: 1, b: { c: 2, d: 3 } },
      { b: { d: 3, c: 2 }, a: 1 },
    ].map((data) => createContent('t', data, 0).contentHash);
    expect(one).to.equal(other);
  });

  it('is refused above 256 KiB, so that every receiver can take it', () => {
    const fits = createContent('t', { text: 'x'.repeat(262_144 - 200) }, 0);
    expect(fits.body.length).to.be.at.most(262_144);
    expect(() => createContent('t', { text: 'x'.repeat(262_144) }, 0))
      .to.throw(GatewayError, /data: makes an event of \d+ bytes; the maximum is 262144/)
      .that.includes({ code: 'invalid_event_data', param: 'data' });
  });
});
