import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import { readForm } from '../../../src/http/body/form.ts';
import { bodyShape } from '../../../src/http/json/body-shape.ts';
import { outline } from '../../../src/http/json/scan.ts';
import { foldCase } from '../../../src/http/json/tokens.ts';
import { withAccountsIdempotencyKey } from '../../../src/proxy/headers.ts';
import {
  bodyFor,
  charactersIn,
  estimateSeconds,
  readModelBody,
  readMultipartBody,
} from '../../../src/proxy/model-body.ts';
import { loadSpec } from '../../support/openapi.ts';
import { collectGarbage } from '../../support/processes/held-memory.ts';

const { schemas } = loadSpec().components;
const chat = schemas.ChatCompletionRequest as { properties: object };
const embedding = schemas.EmbeddingRequest as { properties: object };
const shape = bodyShape(loadSpec(), { properties: { ...chat.properties, ...embedding.properties } });

async function readBytes(rawBody: Buffer) {
  const { fields, value: body } = await outline(rawBody, shape);
  return readModelBody({ rawBody, fields, body });
}

const read = (text: string) => readBytes(Buffer.from(text));
const up = async (text: string, model?: string, usage = true) =>
  bodyFor(Buffer.from(text), await read(text), model, usage).toString();
const duplicate = async (text: string) => {
  try {
    await read(text);
  } catch (error) {
    const { code, param } = error as { code: string; param: string };
    return [code, param];
  }
  return 'accepted';
};

describe('the body of a model call', () => {
  it('reaches the upstream byte for byte when nothing has to change', async () => {
    const text = ' {\n"seed" : 9007199254740993, "x":1,"x":2, "model":"m\\u00e9", "e":1e400,"u":"\\ud800" }\n';
    expect(await up(text)).to.equal(text);
    const bytes = Buffer.from(text);
    expect(bodyFor(bytes, await read(text), undefined, true).toString('latin1')).to.equal(bytes.toString('latin1'));
  });

  it('is sent in pieces that share its memory when it is long and something has to change', async () => {
    const bytes = Buffer.from(`{"model":"fast","stream":true,"x":"${'words '.repeat(20_000)}"}`);
    const pieces = bodyFor(bytes, await readBytes(bytes), 'vendor/big', true) as Buffer[];
    expect(Buffer.concat(pieces).toString()).to.equal(
      bytes.toString().replace('{', '{"stream_options":{"include_usage":true},').replace('fast', 'vendor/big'),
    );
    const longest = pieces.reduce((a, b) => (a.length > b.length ? a : b));
    expect(longest.length).to.be.above(100_000);
    expect(longest.buffer).to.equal(bytes.buffer);
  });

  it('has the model replaced by the alias and nothing else', async () => {
    const text =
      '{"messages":[{"content":"\\"model\\":\\"x\\"","model":"inner"}] , "model" : "fast" ,"seed":9007199254740993}';
    expect(await up(text, 'vendor/big-1')).to.equal(text.replace('"fast"', '"vendor/big-1"'));
  });

  it('is read the same however its keys are escaped', async () => {
    expect(await read('{"mod\\u0065l":"a","str\\u0065am":true}')).to.include({ model: 'a', stream: true });
  });

  it('is refused when it has a key that the gateway reads twice', async () => {
    expect(await duplicate('{"model":"a","model":"b"}')).to.deep.equal(['duplicate_parameter', 'model']);
    expect(await duplicate('{"model":"a","\\u006dodel":"b"}')).to.deep.equal(['duplicate_parameter', 'model']);
    expect(await duplicate('{"model":"a","stream":true,"stre\\u0061m":false}')).to.deep.equal([
      'duplicate_parameter',
      'stream',
    ]);
    expect(await duplicate('{"stream_options":{},"stream_options":{}}')).to.deep.equal([
      'duplicate_parameter',
      'stream_options',
    ]);
    expect(await duplicate('{"encoding_format":"float","encoding_format":"base64"}')).to.deep.equal([
      'duplicate_parameter',
      'encoding_format',
    ]);
    expect(
      await duplicate('{"stream":true,"stream_options":{"include_usage":false,"include_us\\u0061ge":true}}'),
    ).to.deep.equal(['duplicate_parameter', 'include_usage']);
  });

  it('may have other keys twice, and these keys inside other objects', async () => {
    expect(await duplicate('{"model":"a","user":1,"user":2,"tools":[{"model":"b","stream":1}]}')).to.equal('accepted');
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
    it(`asks for usage: ${given} is sent as ${sent}`, async () => {
      expect(await up(given)).to.equal(sent);
      expect(await up(given, undefined, false)).to.equal(given);
    });
  }

  it('has the same model and stream as JSON.parse finds, for any JSON object', async () => {
    const key = fc.oneof(fc.constantFrom('model', 'stream', 'a"b', '\\', 'stream_options'), fc.string());
    // `n` is refused where it is no number
    const isReadable = (name: string) =>
      !['__proto__', 'n'].includes(name) && [undefined, name].includes(shape.folded.get(foldCase(name)));
    const object = fc.dictionary(key.filter(isReadable), fc.jsonValue());
    await fc.assert(
      fc.asyncProperty(object, fc.constantFrom(undefined, 1, '\t'), async (value, indent) => {
        const found = await read(JSON.stringify(value, null, indent));
        expect(found.model).to.equal(typeof value.model === 'string' ? value.model : undefined);
        expect(found.stream).to.equal(value.stream === true);
      }),
    );
  });

  it('may have strings of any length with escapes anywhere', async () => {
    for (const run of [0, 1, 254, 255, 256, 257, 258, 600]) {
      for (const escaped of ['\\"', '\\\\', '\\\\\\"', '\\\\\\\\']) {
        const text = `{"a":"${'x'.repeat(run)}${escaped}${'y'.repeat(run)}${escaped}","model":"m"}`;
        expect((await read(text)).model, text).to.equal('m');
      }
    }
  });

  it('with a 10 MB image takes less of the CPU to be read than to be parsed', async () => {
    const text = `{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,${'A'.repeat(1e7)}"}}]}],"model":"m"}`;
    const bytes = Buffer.from(text);
    const time = async (read: () => { readonly model?: unknown } | Promise<{ readonly model?: unknown }>) => {
      // not the time that passes: others may run meanwhile
      const start = process.cpuUsage();
      expect((await read()).model).to.equal('m');
      const { user, system } = process.cpuUsage(start);
      return user + system;
    };
    const pairs: number[][] = [];
    for (let i = 0; i < 9; i += 1) {
      pairs.push([await time(() => readBytes(bytes)), await time(() => JSON.parse(bytes.toString()))]);
    }
    const [read, parsed] = [0, 1].map((which) => Math.min(...pairs.map((pair) => pair[which] as number)));
    expect(read).to.be.below(parsed as number);
  });
});

const type = 'multipart/form-data; boundary=xYz';
const part = (disposition: string, value: string, more = '') =>
  `--xYz\r\nContent-Disposition: form-data; ${disposition}\r\nContent-Type: x/y\r\n${more}\r\n${value}\r\n`;
const file = part('name="image"; filename="model"', 'PNG\r\n--xY\0\r\nname="model"\r\n\r\nnot me');
const form = (...parts: string[]) => Buffer.from(`${parts.join('')}--xYz--\r\n`, 'latin1');
const readForms = async (bytes: Buffer, contentType = type) => readMultipartBody(await readForm(bytes, contentType));

async function refusal(bytes: Buffer, contentType = type): Promise<string> {
  const error = await readForms(bytes, contentType).catch((thrown) => thrown);
  expect(error).to.include({ code: 'invalid_form' });
  return error.message;
}

describe('the form of an image edit', () => {
  it('gives its model, and reaches the upstream byte for byte', async () => {
    const bytes = form(file, part('name="model"', 'gpt-image-1'), part('name="stream"', 'true'));
    const body = await readForms(bytes);
    expect(body).to.include({ model: 'gpt-image-1', stream: true });
    expect(bodyFor(bytes, body, 'gpt-image-1', true)).to.equal(bytes);
  });

  it('has the model replaced by the alias and nothing else', async () => {
    const bytes = form(part('name=model', 'fast'), file);
    expect(bodyFor(bytes, await readForms(bytes), 'big-1', true)).to.deep.equal(
      form(part('name=model', 'big-1'), file),
    );
  });

  it('has the Content-Length of the model part replaced too, where the part has one', async () => {
    const model = (name: string) => part('name="model"', name, `Content-Length: ${name.length}\r\n`);
    const bytes = form(model('fast'), file);
    const body = await readForms(bytes);
    expect(body.model).to.equal('fast');
    expect(bodyFor(bytes, body, 'a-longer-name', true).toString()).to.equal(
      form(model('a-longer-name'), file).toString(),
    );
  });

  it('is freed from memory while its model is still in use', async () => {
    const readOnce = async () => {
      const bytes = form(part('name="model"', 'fast'), file);
      return { body: await readForms(bytes), bytes: new WeakRef(bytes) };
    };
    const { body, bytes } = await readOnce();
    for (let i = 0; i < 10 && bytes.deref(); i += 1) {
      await nextTurn();
      collectGarbage();
    }
    expect(bytes.deref()).to.equal(undefined);
    expect(body.writeModel('big-1')).to.equal('big-1');
  });

  it('may name no model', async () => {
    expect((await readForms(form(file))).model).to.equal(undefined);
    expect((await readForms(form())).model).to.equal(undefined);
  });

  it('may have its boundary quoted', async () => {
    const quoted = 'multipart/form-data; charset=utf-8; boundary="xYz"';
    expect((await readForms(form(part('name="model"', 'm')), quoted)).model).to.equal('m');
  });

  it('is refused with the part and what is wrong with it', async () => {
    const withHead = (head: string) => Buffer.from(`--xYz\r\n${head}\r\n\r\nx\r\n--xYz--\r\n`);
    const disposition = 'Content-Disposition: form-data; ';
    for (const [head, problem] of [
      ['Content-Type: text/plain', 'must have Content-Disposition: form-data; name="…"'],
      ['Content-Disposition: attachment; name="a"', 'must have Content-Disposition: form-data; name="…"'],
      [`${disposition}name="a"\r\nX-Y: z`, 'has the header X-Y; it may have content-disposition, content-type'],
      [`${disposition}name="a"\r\n${disposition}name="b"`, 'has the header content-disposition twice'],
      [`${disposition}name="a" `, 'must have each header in one line, as its name, a colon and its value'],
      [`${disposition}name="a"; size=1`, 'has the parameter size in Content-Disposition; it may have name, filename'],
      [`${disposition}name="a"; name="b"`, 'has the parameter name twice'],
      [`${disposition}filename="x"; name="a"`, 'must have name as the first parameter'],
      [`${disposition}name="a b"`, 'must have as name in Content-Disposition 1 to 256 letters, digits'],
      [`${disposition}name="a"; filename*=x`, "must have as filename* in Content-Disposition utf-8'' and"],
      [
        `${disposition}name="a"; filename="a\\";b"`,
        'must have as filename in Content-Disposition a text that has not both',
      ],
      [`${disposition}name="a";`, 'has a semicolon at the end of Content-Disposition, which only a file may have'],
    ] as const) {
      expect(await refusal(withHead(head))).to.include(`every reader: part 1 ${problem}`);
    }
  });

  it('is refused without a boundary, when it breaks off, and with more than 1,000 parts', async () => {
    expect(await refusal(form(file), 'multipart/form-data')).to.match(/boundary/);
    expect(await refusal(Buffer.alloc(0))).to.match(/begin with its boundary/);
    expect(await refusal(Buffer.from('--xYz\r\nbroken off'))).to.match(/head has no end/);
    expect(await refusal(form(file).subarray(0, -8))).to.match(/end in its boundary/);
    const parts = Array.from({ length: 1_000 }, (_, i) => part(`name="f${i}"`, ''));
    expect((await readForm(form(...parts), type)).parts).to.have.lengthOf(1_000);
    expect(await refusal(form(...parts, file))).to.match(/more than 1000 parts/);
  });
});

function count(json: string): number {
  const bytes = Buffer.from(json);
  return charactersIn(bytes, { start: 0, end: bytes.length });
}

describe('the characters of a text that is spoken', () => {
  for (const [json, characters] of [
    ['""', 0],
    ['"abc"', 3],
    ['"é€😀"', 3],
    [String.raw`"\"\\\n\/"`, 4],
    [String.raw`"\u00e9\u20AC"`, 2],
    [String.raw`"\ud83d\ude00\uD83D\uDE00"`, 2],
    [String.raw`"\ud83d"`, 1],
    [String.raw`"\ude00\ude00"`, 2],
    [String.raw`"\ud83d\ude00\ude00"`, 2],
    [String.raw`"\ud83dx\ude00"`, 3],
    [String.raw`"\\ud83d"`, 6],
  ] as const) {
    it(`of ${json} are ${characters}`, () => {
      expect(count(json)).to.equal(characters);
      // a lone half has no character of its own in JavaScript either
      expect([...(JSON.parse(json) as string)]).to.have.length(characters);
    });
  }
});

describe('the length of a recording', () => {
  it('is estimated by its size, and that of a WAV file by its header', () => {
    expect(estimateSeconds(Buffer.alloc(0))).to.equal(0);
    expect(estimateSeconds(Buffer.alloc(8_001))).to.equal(2);
    const wav = Buffer.alloc(96_000);
    wav.write('RIFF....WAVEfmt ', 'latin1');
    wav.writeUInt16LE(1, 20);
    wav.writeUInt16LE(2, 22);
    wav.writeUInt32LE(48_000, 24);
    wav.writeUInt16LE(4, 32);
    wav.writeUInt16LE(16, 34);
    // a second is 192,000 bytes
    expect(estimateSeconds(wav)).to.equal(1);
    wav.writeUInt16LE(65_535, 32);
    expect(estimateSeconds(wav), 'by a header that does not fit itself').to.equal(12);
    wav.writeUInt16LE(4, 32);
    wav.writeUInt16LE(0x55, 20);
    expect(estimateSeconds(wav), 'of compressed samples').to.equal(12);
    wav.writeUInt16LE(1, 20);
    wav.writeUInt32LE(0, 24);
    expect(estimateSeconds(wav)).to.equal(12);
  });
});

describe('the idempotency key of a call', () => {
  it('is sent as a different value for every account and key, whatever their characters', () => {
    const secret = Buffer.alloc(32, 7);
    const pairs = [
      ['a', 'b'],
      ['a,b', ''],
      ['', 'a,b'],
      ['a","b', ''],
      ['a', 'b","'],
      ['A', 'b'],
    ] as const;
    const sent = pairs.map(([userId, key]) => withAccountsIdempotencyKey({ 'idempotency-key': key }, userId, secret));
    expect(new Set(sent.map((headers) => headers['idempotency-key'])).size).to.equal(pairs.length);
    expect(withAccountsIdempotencyKey({ accept: 'a' }, 'a', secret)).to.deep.equal({ accept: 'a' });
  });
});
