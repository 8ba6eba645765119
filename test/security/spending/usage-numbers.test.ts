import { expect } from 'chai';
import fc from 'fast-check';
import { costOf } from '../../../src/accounting/price.ts';
import { bodyShape } from '../../../src/http/json/body-shape.ts';
import { JsonScan } from '../../../src/http/json/scan.ts';
import { readModelBody } from '../../../src/proxy/model-body.ts';
import { usageFrom } from '../../../src/proxy/usage-meter.ts';
import { loadSpec } from '../../support/openapi.ts';

const { schemas } = loadSpec().components;
const properties = ['ChatCompletionRequest', 'CompletionRequest', 'EmbeddingRequest'].map(
  (name) => schemas[name]?.properties as object,
);
const shape = bodyShape(loadSpec(), { properties: Object.assign({}, ...properties) });

/** What the relay reads of a body. */
function readText(text: string) {
  const bytes = Buffer.from(text);
  const scan = new JsonScan(bytes, shape);
  scan.run(bytes.length);
  return readModelBody({ rawBody: bytes, fields: scan.fields, body: scan.value }, '/chat/completions');
}

const used = (inputTokens: number, outputTokens: number, cachedInputTokens = 0) => ({
  inputTokens,
  cachedInputTokens,
  outputTokens,
});
const reported = (prompt_tokens: unknown, completion_tokens: unknown, more: object = {}) => ({
  prompt_tokens,
  completion_tokens,
  ...more,
});
const absurd = [-1, -0.5, 1.5, 1e8 + 1, 2 ** 53, 1e308, Number.NaN, Number.POSITIVE_INFINITY, '5', true, [5], { a: 5 }];

describe('the numbers that an upstream reports', () => {
  for (const count of absurd) {
    it(`are ignored where one of them is ${JSON.stringify(count)} (${String(count)})`, () => {
      expect(usageFrom(reported(count, 5))).to.equal(undefined);
      expect(usageFrom(reported(5, count))).to.equal(undefined);
      expect(usageFrom(reported(5, 5, { total_tokens: count }))).to.equal(undefined);
      const cached = reported(5, 5, { prompt_tokens_details: { cached_tokens: count } });
      expect(usageFrom(cached)?.cachedInputTokens).to.be.within(0, 5);
    });
  }

  for (const [usage, expected] of [
    [reported(3, 5), used(3, 5)],
    [reported(-0, -0), used(0, 0)],
    [{ input_tokens: 3, output_tokens: 5 }, used(3, 5)],
    [{ prompt_tokens: 3, total_tokens: 3 }, used(3, 0)],
    [{ prompt_tokens: 3, total_tokens: 9 }, used(3, 6)],
    // reasoning that was left out of the output
    [reported(3, 5, { total_tokens: 50 }), used(3, 47)],
    [reported(3, 5, { total_tokens: 1 }), used(3, 5)],
    [reported(9, 1, { prompt_tokens_details: { cached_tokens: 99 } }), used(9, 1, 9)],
    [{}, undefined],
    [{ prompt_tokens: 3 }, undefined],
    [{ completion_tokens: 3 }, undefined],
    [[], undefined],
    [null, undefined],
    ['usage', undefined],
    [{ usage: { prompt_tokens: 3, completion_tokens: 5 } }, undefined],
  ] as const) {
    it(`are read from ${JSON.stringify(usage)} if complete`, () => expect(usageFrom(usage)).to.deep.equal(expected));
  }

  it('never give a negative or an absurd count or cost, whatever they are', () => {
    const number = fc.oneof(fc.integer(), fc.double(), fc.maxSafeInteger(), fc.nat(100), fc.constantFrom(...absurd));
    const anything = fc.oneof({ weight: 4, arbitrary: number }, fc.anything());
    const usage = fc.record(
      {
        prompt_tokens: anything,
        input_tokens: anything,
        completion_tokens: anything,
        output_tokens: anything,
        total_tokens: anything,
        prompt_tokens_details: fc.oneof(fc.record({ cached_tokens: anything }), fc.anything()),
      },
      { requiredKeys: [] },
    );
    const prices = { '*': { input: 1e9, cachedInput: 0, output: 1e9, image: 1e9 } };
    fc.assert(
      fc.property(usage, (given) => {
        const read = usageFrom(given);
        if (!read) return;
        for (const count of Object.values(read)) {
          expect(Number.isSafeInteger(count) && count >= 0 && count <= 1e8, String(count)).to.equal(true);
          expect(Object.is(count, -0)).to.equal(false);
        }
        expect(read.cachedInputTokens).to.be.at.most(read.inputTokens);
        const cost = costOf({ prices }, { ...read, model: 'm', images: 10 });
        expect(Number.isSafeInteger(cost) && cost >= 0 && cost <= 1e15, String(cost)).to.equal(true);
      }),
      { numRuns: 10_000 },
    );
  });

  it('cost at least one micro-credit where they have a price', () => {
    const charged = { model: 'm', inputTokens: 0, cachedInputTokens: 0, outputTokens: 1, images: 0 };
    expect(costOf({ prices: { '*': { output: 0.1 } } }, charged)).to.equal(1);
  });
});

describe('the reservation for a request', () => {
  for (const [body, choices, maxTokens, tokens] of [
    [{}, 1, undefined, 0],
    [{ n: 5 }, 5, undefined, 0],
    [{ n: 2, best_of: 7 }, 7, undefined, 0],
    [{ n: -3 }, 1, undefined, 0],
    [{ n: null, max_tokens: null }, 1, undefined, 0],
    [{ max_tokens: 1, max_completion_tokens: 90_000 }, 1, 90_000, 0],
    [{ max_tokens: -1 }, 1, undefined, 0],
    [{ prompt: ['a', 'b', 'c'], n: 2 }, 6, undefined, 0],
    [{ prompt: [1, 2, 3] }, 1, undefined, 3],
    [
      {
        prompt: [
          [1, 2],
          [3, 4],
        ],
      },
      2,
      undefined,
      4,
    ],
    [{ input: [1, 2, 3, 4, 5] }, 1, undefined, 5],
    [{ input: ['1, 2', '3'] }, 1, undefined, 0],
    [{ input: '1, 2', dimensions: 3 }, 1, undefined, 0],
  ] as const) {
    it(`counts ${choices} choices and ${tokens} listed tokens in ${JSON.stringify(body)}`, () => {
      const { output, listedTokens } = readText(JSON.stringify({ model: 'm', ...body }));
      expect([output.choices, output.maxTokens, listedTokens]).to.deep.equal([choices, maxTokens, tokens]);
    });
  }

  it('is refused when a field is given twice', () => {
    for (const body of ['{"n":1,"n":9}', '{"max_tokens":1,"max_\\u0074okens":9}', '{"best_of":1,"best_of":2}']) {
      expect(() => readText(body)).to.throw(/is given twice/);
    }
  });
});
