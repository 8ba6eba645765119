import { expect } from 'chai';
import { formatDuration, parseDuration } from '../../src/options/kinds.ts';

describe('a duration', () => {
  const readable: [string, number][] = [
    ['0', 0],
    ['300ms', 300],
    ['10s', 10_000],
    ['1m', 60_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['1.5s', 1_500],
    ['0.25m', 15_000],
    [' 5 s ', 5_000],
  ];
  for (const [text, ms] of readable) {
    it(`'${text}' is ${ms} ms`, () => expect(parseDuration(text)).to.equal(ms));
  }

  for (const text of [
    '',
    '5',
    '1.5',
    '-1s',
    '+1s',
    '1x',
    '1ms2',
    '1h30m',
    's',
    '1e3ms',
    '.5s',
    '0.5ms',
    '1 0s',
    '9999999999999d',
  ]) {
    it(`'${text}' is refused`, () => expect(parseDuration(text)).to.equal(undefined));
  }

  const written: [number, string][] = [
    [0, '0ms'],
    [300, '300ms'],
    [1_500, '1500ms'],
    [60_000, '1m'],
    [90_000, '90s'],
    [28_800_000, '8h'],
    [86_400_000, '1d'],
  ];
  for (const [ms, text] of written) {
    it(`${ms} ms is written '${text}', which reads as the same`, () => {
      expect(formatDuration(ms)).to.equal(text);
      expect(parseDuration(text)).to.equal(ms);
    });
  }
});
