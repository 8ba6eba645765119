import { expect } from 'chai';
import { localTime, momentOf, relative, spanOf } from '../../../src/cli/terminal/text.ts';

const now = Date.parse('2026-01-31T12:00:00Z');

describe('a time span', () => {
  for (const [ms, text] of [
    [0, '0ms'],
    [840.4, '840ms'],
    [59_999, '59s'],
    [60_000, '1m'],
    [2 * 3_600_000, '2h'],
    [47 * 3_600_000, '47h'],
    [48 * 3_600_000, '2d'],
  ] as const) {
    it(`of ${ms} ms reads ${text}`, () => {
      expect(spanOf(ms)).to.equal(text);
    });
  }
});

describe('a moment', () => {
  it('is shown relative to now', () => {
    expect(relative('2026-01-31T11:57:00Z', now)).to.equal('3m ago');
    expect(relative('2026-01-31T12:00:30Z', now)).to.equal('in 30s');
    expect(relative('2026-01-31T12:00:00.400Z', now)).to.equal('now');
  });

  it("is shown in the reader's time zone", () => {
    const zone = process.env.TZ;
    try {
      process.env.TZ = 'Asia/Kathmandu';
      expect(localTime('2026-01-31T20:05:09Z')).to.equal('2026-02-01 01:50:09');
      expect(momentOf('2026-01-31T11:00:00Z', now)).to.equal('2026-01-31 16:45:00 (1h ago)');
    } finally {
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    }
  });
});
