import { expect } from 'chai';
import fc from 'fast-check';
import { costOf } from '../../../src/accounting/price.ts';
import { bodyShape } from '../../../src/http/json/body-shape.ts';
import { outline } from '../../../src/http/json/scan.ts';
import { usageFrom } from '../../../src/proxy/answer-body.ts';
import { readModelBody } from '../../../src/proxy/model-body.ts';
import { UsageMeter } from '../../../src/proxy/usage-meter.ts';
import { loadSpec } from '../../support/openapi.ts';

const newMeter = () => new UsageMeter({ answersImages: false }, false, { choices: 1, maxTokens: undefined });

function read(text: string, size = text.length): unknown {
  const meter = newMeter();
  const bytes = Buffer.from(text);
  for (let i = 0; i < bytes.length; i += size) meter.read(bytes.subarray(i, i + size));
  return meter.reported;
}

function used(inputTokens: number, outputTokens: number, cachedInputTokens = 0) {
  return { inputTokens, cachedInputTokens, outputTokens };
}

describe('the usage that a meter reads', () => {
  it('reads the output tokens that were reasoning, which are never more than all of them', () => {
    const chat =
      '{"usage":{"prompt_tokens":9,"completion_tokens":8,"completion_tokens_details":{"reasoning_tokens":6}}}';
    const response = '{"usage":{"input_tokens":9,"output_tokens":8,"output_tokens_details":{"reasoning_tokens":6}}}';
    for (const text of [chat, response]) expect(read(text)).to.deep.equal({ ...used(9, 8), reasoningTokens: 6 });
    expect(read(chat.replace('6', '60'))).to.deep.equal({ ...used(9, 8), reasoningTokens: 8 });
    for (const wrong of ['0', '-1', '1.5', '"6"', 'null']) {
      expect(read(chat.replace('6', wrong)), wrong).to.deep.equal(used(9, 8));
    }
  });

  const completion =
    '{"choices":[{"message":{"content":"\\"usage\\":{\\"prompt_tokens\\":999}"}}],"usage" : {"prompt_tokens":3,"completion_tokens":5,"details":{"s":"}"}},"x":1}';

  it('reads the usage of a completion, whatever the model wrote into it', () => {
    expect(read(completion)).to.deep.equal(used(3, 5));
  });

  it('reads the usage however the bytes are cut', () => {
    for (let size = 1; size < completion.length; size += 1) {
      expect(read(completion, size), `in pieces of ${size}`).to.deep.equal(used(3, 5));
    }
  });

  it('reads the last usage of a stream, past every null', () => {
    const stream =
      'data: {"choices":[{}],"usage":null}\n\ndata: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\ndata: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9}}\n\ndata: [DONE]\n\n';
    for (const size of [1, 7, 50, 1000]) expect(read(stream, size)).to.deep.equal(used(7, 9));
  });

  for (const end of ['\n', '\r\n', '\r']) {
    it(`reads the usage from an event of several data lines that end in ${JSON.stringify(end)}, however the bytes are cut`, () => {
      const lines = ['{"choices":[],', '"usage"', ':', ' {', '"prompt_tokens":3,', '"completion_tokens"', ': 5', '}}'];
      for (const field of ['data: ', 'data:']) {
        const stream = `${lines.map((line) => field + line + end).join('')}${end}data: [DONE]${end}${end}`;
        for (let size = 1; size < stream.length; size += 1) {
          expect(read(stream, size), `in pieces of ${size}`).to.deep.equal(used(3, 5));
        }
      }
    });
  }

  it('reads the token counts of images and embeddings under their own names', () => {
    expect(read('{"usage":{"input_tokens":4,"output_tokens":6}}')).to.deep.equal(used(4, 6));
    expect(read('{"usage":{"prompt_tokens":4,"total_tokens":4}}')).to.deep.equal(used(4, 0));
  });

  it('reads the seconds of audio, and ignores impossible ones', () => {
    const timed = (seconds: number) => ({ ...used(0, 0), seconds });
    expect(read('{"text":"a","usage":{"type":"duration","seconds":9}}')).to.deep.equal(timed(9));
    expect(read('{"usage":{"type":"duration","seconds":0.1234}}')).to.deep.equal(timed(0.123));
    expect(read('{"usage":{"type":"tokens","input_tokens":4,"output_tokens":6,"seconds":9}}')).to.deep.equal(
      used(4, 6),
    );
    for (const seconds of ['-1', '1e9', '"9"', 'null', '{}']) {
      expect(read(`{"usage":{"type":"duration","seconds":${seconds}}}`), seconds).to.equal(undefined);
    }
  });

  it('reads the cached input tokens under each of their names, never more than the input has', () => {
    const chat = '{"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":8}}}';
    const image = '{"usage":{"input_tokens":9,"output_tokens":1,"input_tokens_details":{"cached_tokens":8}}}';
    const realtime = '{"usage":{"input_tokens":9,"output_tokens":1,"input_token_details":{"cached_tokens":8}}}';
    for (const size of [1, 7, 1000]) {
      expect(read(realtime, size)).to.deep.equal(used(9, 1, 8));
      expect(read(chat, size)).to.deep.equal(used(9, 1, 8));
      expect(read(image, size)).to.deep.equal(used(9, 1, 8));
    }
    const count = '"prompt_tokens":9,"completion_tokens":1';
    const deepSeek = `{"usage":{${count},"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":1}}`;
    const moonshot = `{"usage":{${count},"total_tokens":10,"cached_tokens":8}}`;
    const both = `{"usage":{${count},"prompt_tokens_details":{"cached_tokens":0},"prompt_cache_hit_tokens":8}}`;
    for (const text of [deepSeek, moonshot, both]) {
      expect(read(text), text).to.deep.equal(used(9, 1, 8));
      expect(read(text.replace(':8', ':80')), text).to.deep.equal(used(9, 1, 9));
      for (const wrong of [':-8', ':1.5', ':"8"', ':null']) {
        expect(read(text.replace(':8', wrong)), text + wrong).to.deep.equal(used(9, 1));
      }
    }
    for (const [details, cached] of [
      ['{"cached_tokens":99}', 9],
      ['{"cached_tokens":-1}', 0],
      ['{"cached_tokens":"8"}', 0],
      ['{}', 0],
      ['null', 0],
      ['[8]', 0],
      ['8', 0],
    ] as const) {
      const text = `{"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":${details}}}`;
      expect(read(text), details).to.deep.equal(used(9, 1, cached));
    }
  });

  it('finds no usage where there is none', () => {
    for (const text of [
      '',
      '{"usage":null}',
      '{"a":"usage"}',
      '["usage",{"prompt_tokens":1}]',
      '{"usage":{broken}}',
      '{"usage":{',
    ]) {
      expect(read(text), text).to.equal(undefined);
      expect(read(text, 1), text).to.equal(undefined);
    }
  });

  it('gives up an object that grows too long', () => {
    const meter = newMeter();
    meter.read(Buffer.from(`{"usage":{"a":"${'x'.repeat(100_000)}`));
    meter.read(Buffer.from('"}}'));
    expect(meter.reported).to.equal(undefined);
  });
});

const { schemas } = loadSpec().components;
const properties = ['ChatCompletionRequest', 'CompletionRequest', 'EmbeddingRequest'].map(
  (name) => schemas[name]?.properties as object,
);
const shape = bodyShape(loadSpec(), { properties: Object.assign({}, ...properties) });

/** What the relay reads of a body. */
async function readText(text: string) {
  const rawBody = Buffer.from(text);
  const { fields, value: body } = await outline(rawBody, shape);
  return readModelBody({ rawBody, fields, body }, '/chat/completions');
}

const usageIn = (inputTokens: number, outputTokens: number, cachedInputTokens = 0) => ({
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
    [reported(3, 5), usageIn(3, 5)],
    [reported(-0, -0), usageIn(0, 0)],
    [{ input_tokens: 3, output_tokens: 5 }, usageIn(3, 5)],
    [{ prompt_tokens: 3, total_tokens: 3 }, usageIn(3, 0)],
    [{ prompt_tokens: 3, total_tokens: 9 }, usageIn(3, 6)],
    // reasoning that was left out of the output
    [reported(3, 5, { total_tokens: 50 }), usageIn(3, 47)],
    [reported(3, 5, { total_tokens: 1 }), usageIn(3, 5)],
    [reported(9, 1, { prompt_tokens_details: { cached_tokens: 99 } }), usageIn(9, 1, 9)],
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
    it(`counts ${choices} choices and ${tokens} listed tokens in ${JSON.stringify(body)}`, async () => {
      const { output, listedTokens } = await readText(JSON.stringify({ model: 'm', ...body }));
      expect([output.choices, output.maxTokens, listedTokens]).to.deep.equal([choices, maxTokens, tokens]);
    });
  }

  it('is refused when a field is given twice', async () => {
    for (const body of ['{"n":1,"n":9}', '{"max_tokens":1,"max_\\u0074okens":9}', '{"best_of":1,"best_of":2}']) {
      expect(String(await readText(body).catch((error: Error) => error))).to.match(/is given twice/);
    }
  });
});
