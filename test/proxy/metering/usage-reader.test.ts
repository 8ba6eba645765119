import { expect } from 'chai';
import { UsageMeter } from '../../../src/proxy/usage-meter.ts';

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
