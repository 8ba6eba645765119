import { expect } from 'chai';
import fc from 'fast-check';
import { bodyShape } from '../../../src/http/json/body-shape.ts';
import { JsonScan } from '../../../src/http/json/scan.ts';
import { foldCase } from '../../../src/http/json/tokens.ts';
import { bodyFor, readModelBody } from '../../../src/proxy/model-body.ts';
import { loadSpec } from '../../support/openapi.ts';

const { schemas } = loadSpec().components;
const chat = schemas.ChatCompletionRequest as { properties: object };
const embedding = schemas.EmbeddingRequest as { properties: object };
const shape = bodyShape(loadSpec(), { properties: { ...chat.properties, ...embedding.properties } });

function readBytes(bytes: Buffer) {
  const scan = new JsonScan(bytes, shape);
  scan.run(bytes.length);
  return readModelBody({ rawBody: bytes, fields: scan.fields, body: scan.value });
}

const read = (text: string) => readBytes(Buffer.from(text));
const up = (text: string, model?: string, usage = true) =>
  bodyFor(Buffer.from(text), read(text), model, usage).toString();
const duplicate = (text: string) => {
  try {
    read(text);
  } catch (error) {
    const { code, param } = error as { code: string; param: string };
    return [code, param];
  }
  return 'accepted';
};

describe('the body of a model call', () => {
  it('reaches the upstream byte for byte when nothing has to change', () => {
    const text = ' {\n"seed" : 9007199254740993, "x":1,"x":2, "model":"m\\u00e9", "e":1e400,"u":"\\ud800" }\n';
    expect(up(text)).to.equal(text);
    const bytes = Buffer.from(text);
    expect(bodyFor(bytes, read(text), undefined, true).toString('latin1')).to.equal(bytes.toString('latin1'));
  });

  it('is sent in pieces that share its memory when it is long and something has to change', () => {
    const bytes = Buffer.from(`{"model":"fast","stream":true,"x":"${'words '.repeat(20_000)}"}`);
    const pieces = bodyFor(bytes, readBytes(bytes), 'vendor/big', true) as Buffer[];
    expect(Buffer.concat(pieces).toString()).to.equal(
      bytes.toString().replace('{', '{"stream_options":{"include_usage":true},').replace('fast', 'vendor/big'),
    );
    const longest = pieces.reduce((a, b) => (a.length > b.length ? a : b));
    expect(longest.length).to.be.above(100_000);
    expect(longest.buffer).to.equal(bytes.buffer);
  });

  it('has the model replaced by the alias and nothing else', () => {
    const text =
      '{"messages":[{"content":"\\"model\\":\\"x\\"","model":"inner"}] , "model" : "fast" ,"seed":9007199254740993}';
    expect(up(text, 'vendor/big-1')).to.equal(text.replace('"fast"', '"vendor/big-1"'));
  });

  it('is read the same however its keys are escaped', () => {
    expect(read('{"mod\\u0065l":"a","str\\u0065am":true}')).to.include({ model: 'a', stream: true });
  });

  it('is refused when it has a key that the gateway reads twice', () => {
    expect(duplicate('{"model":"a","model":"b"}')).to.deep.equal(['duplicate_parameter', 'model']);
    expect(duplicate('{"model":"a","\\u006dodel":"b"}')).to.deep.equal(['duplicate_parameter', 'model']);
    expect(duplicate('{"model":"a","stream":true,"stre\\u0061m":false}')).to.deep.equal([
      'duplicate_parameter',
      'stream',
    ]);
    expect(duplicate('{"stream_options":{},"stream_options":{}}')).to.deep.equal([
      'duplicate_parameter',
      'stream_options',
    ]);
    expect(duplicate('{"encoding_format":"float","encoding_format":"base64"}')).to.deep.equal([
      'duplicate_parameter',
      'encoding_format',
    ]);
    expect(
      duplicate('{"stream":true,"stream_options":{"include_usage":false,"include_us\\u0061ge":true}}'),
    ).to.deep.equal(['duplicate_parameter', 'include_usage']);
  });

  it('may have other keys twice, and these keys inside other objects', () => {
    expect(duplicate('{"model":"a","user":1,"user":2,"tools":[{"model":"b","stream":1}]}')).to.equal('accepted');
  });

  const asked: [string, string][] = [
    ['{"stream":true}', '{"stream_options":{"include_usage":true},"stream":true}'],
    ['{"stream":true,"stream_options":null}', '{"stream":true,"stream_options":{"include_usage":true}}'],
    ['{"stream":true,"stream_options":{}}', '{"stream":true,"stream_options":{"include_usage":true}}'],
    ['{"stream_options":{ "a":1},"stream":true}', '{"stream_options":{"include_usage":true, "a":1},"stream":true}'],
    [
      '{"stream":true,"stream_options":{"include_usage": false }}',
      '{"stream":true,"stream_options":{"include_usage": true }}',
    ],
    [
      '{"stream":true,"stream_options":{"include_usage":true}}',
      '{"stream":true,"stream_options":{"include_usage":true}}',
    ],
    ['{"stream":false,"stream_options":{}}', '{"stream":false,"stream_options":{}}'],
    ['{"stream":true,"stream_options":7}', '{"stream":true,"stream_options":7}'],
    ['{"stream":"true"}', '{"stream":"true"}'],
  ];
  for (const [given, sent] of asked) {
    it(`asks for usage: ${given} is sent as ${sent}`, () => {
      expect(up(given)).to.equal(sent);
      expect(up(given, undefined, false)).to.equal(given);
    });
  }

  it('has the same model and stream as JSON.parse finds, for any JSON object', () => {
    const key = fc.oneof(fc.constantFrom('model', 'stream', 'a"b', '\\', 'stream_options'), fc.string());
    // `n` is refused where it is no number
    const isReadable = (name: string) =>
      !['__proto__', 'n'].includes(name) && [undefined, name].includes(shape.folded.get(foldCase(name)));
    const object = fc.dictionary(key.filter(isReadable), fc.jsonValue());
    fc.assert(
      fc.property(object, fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
        const found = read(JSON.stringify(value, null, indent));
        expect(found.model).to.equal(typeof value.model === 'string' ? value.model : undefined);
        expect(found.stream).to.equal(value.stream === true);
      }),
    );
  });

  it('may have strings of any length with escapes anywhere', () => {
    for (const run of [0, 1, 254, 255, 256, 257, 258, 600]) {
      for (const escaped of ['\\"', '\\\\', '\\\\\\"', '\\\\\\\\']) {
        const text = `{"a":"${'x'.repeat(run)}${escaped}${'y'.repeat(run)}${escaped}","model":"m"}`;
        expect(read(text).model, text).to.equal('m');
      }
    }
  });

  it('with a 10 MB image takes less of the CPU to be read than to be parsed', () => {
    const text = `{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,${'A'.repeat(1e7)}"}}]}],"model":"m"}`;
    const bytes = Buffer.from(text);
    const time = (read: () => { readonly model?: unknown }) => {
      // not the time that passes: others may run meanwhile
      const start = process.cpuUsage();
      expect(read().model).to.equal('m');
      const { user, system } = process.cpuUsage(start);
      return user + system;
    };
    const pairs = Array.from({ length: 9 }, () => [
      time(() => readBytes(bytes)),
      time(() => JSON.parse(bytes.toString())),
    ]);
    const [read, parsed] = [0, 1].map((which) => Math.min(...pairs.map((pair) => pair[which] as number)));
    expect(read).to.be.below(parsed as number);
  });
});
