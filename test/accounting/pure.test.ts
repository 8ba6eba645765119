import { expect } from 'chai';
import fc from 'fast-check';
import { costOf, toCredits, toMicro } from '../../src/accounting/price.ts';
import { crossings } from '../../src/accounting/sums.ts';

const prices = {
  '*': { input: 2, output: 8 },
  painter: { image: 40 },
  tiny: { input: 0.15 },
  caching: { input: 2, cachedInput: 0.5 },
  writing: { input: 2, cachedInput: 0.2, cacheWrite: 2.5 },
  free: {},
  'whisper-1': { second: 0.0001 },
  'tts-1': { character: 15 },
  speaks: { input: 1, output: 10, character: 15 },
  listens: { input: 1, output: 10, second: 0.0001 },
  learns: { input: 1, output: 10, batch: 0.5, training: 25 },
};
const none = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, images: 0 };

describe('the price of a call', () => {
  it('is that of what an upstream keeps: of each object that is made, and of what is sent up, not of what is sent down', () => {
    const storedPrices = { file: { each: 0.5, megabyte: 2 }, container: { each: 3 } };
    const none = { model: null, inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, images: 0 };
    const cost = (kind: 'file' | 'container' | 'skill', made: number, uploadedBytes: number, downloadedBytes = 0) =>
      costOf({ prices, storedPrices }, { ...none, stored: { kind, made, uploadedBytes, downloadedBytes } });
    expect(cost('file', 1, 1_500_000)).to.equal(3_500_000);
    expect(cost('file', 0, 1)).to.equal(2);
    expect(cost('file', 0, 0, 1_000_000)).to.equal(0);
    expect(cost('container', 1, 1_000_000)).to.equal(3_000_000);
    expect(cost('skill', 1, 1_000_000)).to.equal(0);
    const stored = { kind: 'file', made: 1, uploadedBytes: 1, downloadedBytes: 0 } as const;
    expect(costOf({ prices }, { ...none, stored })).to.equal(0);
  });

  it('is the price of its model: tokens per million, images each, in micro-credits', () => {
    expect(costOf({ prices }, { ...none, model: 'any', inputTokens: 1_000_000, outputTokens: 500_000 })).to.equal(
      6_000_000,
    );
    expect(costOf({ prices }, { ...none, model: 'painter', inputTokens: 50, images: 2 })).to.equal(80_000_000);
    expect(costOf({ prices }, { ...none, model: 'free', inputTokens: 50 })).to.equal(0);
  });

  it('counts audio per second and characters per million', () => {
    expect(costOf({ prices }, { ...none, model: 'whisper-1', seconds: 61.5 })).to.equal(6_150);
    expect(costOf({ prices }, { ...none, model: 'tts-1', characters: 2_000 })).to.equal(30_000);
    expect(costOf({ prices }, { ...none, model: 'any', seconds: 60, characters: 2_000 })).to.equal(0);
  });

  it('is by token or by length, never by both', () => {
    const tokens = { ...none, inputTokens: 20, outputTokens: 300 };
    const rows: [model: string, amounts: object, cost: number][] = [
      ['speaks', { characters: 100 }, 1_500],
      ['speaks', { ...tokens, characters: 100 }, 3_020],
      ['tts-1', { ...tokens, characters: 100 }, 1_500],
      ['listens', { seconds: 60 }, 6_000],
      ['listens', tokens, 3_020],
      ['listens', { ...tokens, seconds: 60 }, 6_000],
      ['listens', { ...tokens, seconds: 10 }, 3_020],
    ];
    for (const [model, amounts, cost] of rows)
      expect(costOf({ prices }, { ...none, ...amounts, model })).to.equal(cost);
  });

  it('is that of training for the tokens of a fine-tuning job, or else that of input', () => {
    const trained = { ...none, inputTokens: 2_000, endpoint: '/fine_tuning/jobs' };
    expect(costOf({ prices }, { ...trained, model: 'learns' })).to.equal(2_000 * 25);
    expect(costOf({ prices }, { ...trained, model: 'any' })).to.equal(2_000 * 2);
    expect(costOf({ prices }, { ...trained, model: 'free' })).to.equal(0);
    expect(costOf({ prices }, { ...trained, model: 'learns', endpoint: '/chat/completions' })).to.equal(2_000);
  });

  it('is lower for input from the provider cache when the model has a price for it', () => {
    const cached = { ...none, inputTokens: 1_000, cachedInputTokens: 800 };
    expect(costOf({ prices }, { ...cached, model: 'caching' })).to.equal(200 * 2 + 800 * 0.5);
    expect(costOf({ prices }, { ...cached, model: 'any' })).to.equal(1_000 * 2);
  });

  it('is that of what the provider wrote into its cache when the model has a price for it', () => {
    const written = { ...none, inputTokens: 1_000, cachedInputTokens: 800, cacheWriteTokens: 150 };
    expect(costOf({ prices }, { ...written, model: 'writing' })).to.equal(50 * 2 + 800 * 0.2 + 150 * 2.5);
    expect(costOf({ prices }, { ...written, model: 'caching' })).to.equal(200 * 2 + 800 * 0.5);
  });

  it('is twice that of input for what the provider keeps in its cache for an hour, when the model has a price for what it writes there', () => {
    const written = { ...none, inputTokens: 1_000, cachedInputTokens: 800, cacheWriteTokens: 150 };
    const forHour = { ...written, cacheWriteHourTokens: 100 };
    expect(costOf({ prices }, { ...forHour, model: 'writing' })).to.equal(50 * 2 + 800 * 0.2 + 50 * 2.5 + 100 * 4);
    expect(costOf({ prices }, { ...forHour, model: 'caching' })).to.equal(200 * 2 + 800 * 0.5);
  });

  it('is that of audio for estimated tokens that may be audio, if it is higher than that of text', () => {
    const all = { prices: { '*': { input: 2, audioInput: 30, output: 50, audioOutput: 40 } } };
    const tokens = { ...none, model: 'm', inputTokens: 10, outputTokens: 1 };
    for (const endpoint of ['/realtime', '/chat/completions', '/audio/speech', '/audio/transcriptions']) {
      expect(costOf(all, { ...tokens, endpoint, estimated: true })).to.equal(10 * 30 + 50);
      expect(costOf(all, { ...tokens, endpoint, estimated: false })).to.equal(10 * 2 + 50);
    }
    expect(costOf(all, { ...tokens, endpoint: '/embeddings', estimated: true })).to.equal(10 * 2 + 50);
  });

  it('is the default price where the model has none of its own, whatever its name', () => {
    for (const model of [null, undefined, '__proto__', 'constructor', 'toString']) {
      expect(costOf({ prices }, { ...none, model, inputTokens: 3 })).to.equal(6);
    }
  });

  it('is a whole number of micro-credits, rounded once', () => {
    expect(costOf({ prices }, { ...none, model: 'tiny', inputTokens: 10 })).to.equal(2);
    expect(costOf({ prices }, { ...none, model: 'tiny', inputTokens: 1_000_000 })).to.equal(150_000);
  });

  it('is counted in micro-credits, a million to the credit', () => {
    expect(toMicro('credits', 0.1)).to.equal(100_000);
    expect(toCredits(toMicro('credits', 12.345678))).to.equal(12.345678);
  });

  for (const credits of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1e10, '5', null]) {
    it(`cannot be ${String(credits)}`, () => {
      expect(() => toMicro('credits', credits as number)).to.throw(/^credits: must be an amount/);
    });
  }
});

describe('the thresholds of a quota', () => {
  it('are reached by the amount that brings the sum there; one amount may reach several', () => {
    expect(
      crossings({ before: 0, amounts: [79, 1, 5], quota: 100, thresholds: [80, 100], announced: [] }),
    ).to.deep.equal([{ threshold: 80, usage: 80 }]);
    expect(
      crossings({ before: 70, amounts: [45, 10], quota: 100, thresholds: [100, 80], announced: [] }),
    ).to.deep.equal([
      { threshold: 80, usage: 115 },
      { threshold: 100, usage: 115 },
    ]);
  });

  it('are reported with two decimals', () => {
    expect(crossings({ before: 0, amounts: [2], quota: 3, thresholds: [50], announced: [] })).to.deep.equal([
      { threshold: 50, usage: 66.67 },
    ]);
  });

  it('are not reported twice, but are reported late when a smaller quota puts them in the past', () => {
    expect(crossings({ before: 90, amounts: [5], quota: 100, thresholds: [80, 100], announced: [80] })).to.deep.equal(
      [],
    );
    expect(crossings({ before: 90, amounts: [5], quota: 100, thresholds: [80, 100], announced: [] })).to.deep.equal([
      { threshold: 80, usage: 95 },
    ]);
    expect(crossings({ before: 90, amounts: [], quota: 100, thresholds: [80, 100], announced: [] })).to.deep.equal([]);
  });

  it('are the same however the amounts are split into batches', () => {
    const amounts = fc.array(fc.nat(60), { maxLength: 30 });
    const thresholds = fc.uniqueArray(fc.integer({ min: 1, max: 150 }), { maxLength: 4 });
    fc.assert(
      fc.property(amounts, thresholds, fc.integer({ min: 1, max: 500 }), fc.nat(10), (all, wanted, quota, cut) => {
        const expected = new Map<number, number>();
        let sum = 0;
        for (const amount of all) {
          sum += amount;
          for (const one of wanted) {
            if (!expected.has(one) && (sum / quota) * 100 >= one - 1e-9) expected.set(one, sum);
          }
        }
        const found: [number, number][] = [];
        let before = 0;
        for (let i = 0; i < all.length; i += cut + 1) {
          const batch = all.slice(i, i + cut + 1);
          const announced = found.map(([threshold]) => threshold);
          for (const { threshold, usage } of crossings({
            before,
            amounts: batch,
            quota,
            thresholds: wanted,
            announced,
          })) {
            found.push([threshold, usage]);
          }
          before += batch.reduce((total, amount) => total + amount, 0);
        }
        const rounded = [...expected].map(([one, used]) => [one, Math.round((used / quota) * 10_000) / 100]);
        const byThreshold = (a: number[], b: number[]) => Number(a[0]) - Number(b[0]);
        expect(found.sort(byThreshold)).to.deep.equal(rounded.sort(byThreshold));
      }),
    );
  });
});
