import { randomBytes } from 'node:crypto';
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { json, ScriptedUpstream } from '../../support/upstream.ts';
import { type MeasuredEdge, sendWithinBounds, startMeasuredEdge } from './bounds.ts';

const chat = '/v1/chat/completions';
const mebibytes = (count: number): number => count * 1024 * 1024;

/** `part` again and again, between `before` and `after`, to about so many bytes. */
function filled(before: string, part: string, after: string, length = mebibytes(32) - 1_000): string {
  return before + part.repeat(Math.floor((length - before.length - after.length) / part.length)) + after;
}

const hello = '"model":"m","messages":[{"role":"user","content":"Hi"}]';

describe('the limits of CPU time and memory for a body', () => {
  let upstream: ScriptedUpstream;
  let edge: MeasuredEdge;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [{}], data: [{}] });
    edge = await startMeasuredEdge(upstream.baseUrl);
    for (let i = 0; i < 30; i += 1) await edge.send(chat, { body: `{${hello}}` });
  });
  after(async () => {
    await edge.close();
    await upstream.close();
  });

  const message = `{"role":"user","content":"${'What is a webhook? '.repeat(50)}"},`;
  const ordinary: [what: string, path: string, body: string][] = [
    ['one long text', chat, filled('{"model":"m","messages":[{"role":"user","content":"', 'words ', '"}]}')],
    [
      'text in two bytes a character',
      chat,
      filled('{"model":"m","messages":[{"role":"user","content":"', 'é', '"}]}', 16e6),
    ],
    ['thousands of messages', chat, filled('{"model":"m","messages":[', message, '{"role":"user"}]}')],
    [
      'images in base64',
      chat,
      `{"model":"m","messages":[{"role":"user","content":[${Array(8)
        .fill(`{"type":"image_url","image_url":{"url":"data:image/png;base64,${'iVBORw0KGgo='.repeat(340_000)}"}}`)
        .join()}]}]}`,
    ],
    [
      '2,048 texts to embed',
      '/v1/embeddings',
      JSON.stringify({ model: 'm', input: Array(2_048).fill('some words '.repeat(1_450)) }),
    ],
    [
      '2,048 texts to embed, as tokens',
      '/v1/embeddings',
      `{"model":"m","input":[${Array(2_048)
        .fill(`[${Array(2_700).fill(12_345).join()}]`)
        .join()}]}`,
    ],
  ];
  for (const [what, path, body] of ordinary) {
    it(`are enough for an ordinary one of 32 MiB: ${what}`, async () => {
      const outcome = await sendWithinBounds(edge, path, { body }, Buffer.byteLength(body));
      expect(outcome.status, outcome.text).to.equal(200);
      expect(upstream.last.body.equals(Buffer.from(body))).to.equal(true);
    });
  }

  it('are enough for an ordinary one of 32 MiB in which something has to change', async () => {
    const body = filled('{"stream":true,"model":"m","messages":[{"role":"user","content":"', 'words ', '"}]}');
    const outcome = await sendWithinBounds(edge, chat, { body });
    expect(outcome.status, outcome.text).to.equal(200);
    const asked = Buffer.from(body.replace('{', '{"stream_options":{"include_usage":true},'));
    expect(upstream.last.body.equals(asked)).to.equal(true);
    expect(upstream.last.headers).to.include({ 'content-length': String(asked.length) });
  });

  it('are enough for an ordinary form of 32 MiB, an image edit of two images', async () => {
    const boundary = `----formdata-undici-${randomBytes(6).toString('hex')}`;
    const part = (head: string, content: string | Buffer) => [
      Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n`),
      Buffer.from(content),
      Buffer.from('\r\n'),
    ];
    // as a picture is: every byte, none more often than another
    const image = (name: string) =>
      part(`name="image[]"; filename="${name}.png"\r\nContent-Type: image/png`, randomBytes(mebibytes(16) - 1_000));
    const body = Buffer.concat([
      ...[...part('name="model"', 'gpt-image-1'), ...image('day'), ...image('night')],
      ...[...part('name="prompt"', 'Let it be night'), ...part('name="n"', '1')],
      Buffer.from(`--${boundary}--\r\n`),
    ]);
    const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` };
    const outcome = await sendWithinBounds(edge, '/v1/images/edits', { body, headers });
    expect(outcome.status, outcome.text).to.equal(200);
    expect(upstream.last.path).to.match(/\/images\/edits$/);
    expect(upstream.last.headers).to.include(headers);
    expect(upstream.last.body.equals(body)).to.equal(true);
  });

  const bombs: [what: string, path: string, body: string | Buffer, codes: string[]][] = [
    ['empty objects', chat, filled(`{${hello},"x":[`, '{},', '1]}'), ['request_too_large']],
    ['empty arrays', chat, filled(`{${hello},"x":[`, '[],', '1]}'), ['request_too_large']],
    ['numbers', chat, filled(`{${hello},"x":[`, '1,', '1]}'), ['request_too_large']],
    ['a string and another', chat, filled(`{${hello},"x":[`, '"",', '1]}'), ['request_too_large']],
    ['messages that are none', chat, filled('{"model":"m","messages":[', '{},', '{}]}'), ['request_too_large']],
    [
      'messages that are none, and long',
      chat,
      filled('{"model":"m","messages":[{"role":"u"},', `{"x":"${'y'.repeat(300)}"},`, '{}]}'),
      ['missing_required_parameter'],
    ],
    ['fractions for tokens', '/v1/embeddings', filled('{"model":"m","input":[', '0.5,', '1]}'), ['request_too_large']],
    [
      'a wrong token after millions',
      '/v1/embeddings',
      filled('{"model":"m","input":[', '1234567,', 'null]}'),
      ['invalid_type', 'request_too_large'],
    ],
    ['keys', chat, `{${hello},${Array.from({ length: 900_000 }, (_, i) => `"${i}":0`).join()}}`, ['request_too_large']],
    ['one key', chat, filled(`{${hello},"`, 'key ', '":1}'), []],
    ['a model', chat, filled('{"messages":[{"role":"user"}],"model":"', '\\u0041', '"}'), ['invalid_value']],
    ['escapes', chat, filled(`{${hello},"x":"`, '\\u00e9\\n', '"}'), []],
    ['escaped quotes', chat, filled(`{${hello},"x":"`, '\\"', '"}'), []],
    ['marks of pictures', chat, filled(`{${hello},"x":[`, '"image_url",', '1]}', 11e6), []],
    ['marks of data URLs', chat, filled(`{${hello},"x":"`, ';base64,', '"}'), []],
    ['data URLs', chat, filled(`{${hello},"x":[`, '"data:;base64,",', '1]}', 14e6), []],
    ['white space', chat, filled(`{${hello}`, ' \n', '}'), []],
    ['brackets', chat, filled('', '[', ''), ['invalid_json']],
    ['one number', chat, filled(`{${hello},"x":`, '1', '}'), ['invalid_json']],
    ['a text without an end', chat, filled(`{${hello},"x":"`, 'words ', ''), ['invalid_json']],
    ['no UTF-8', chat, Buffer.from(filled(`{${hello},"x":"`, 'w\xffrds ', '"}'), 'latin1'), ['invalid_encoding']],
    [
      'objects in an event',
      '/v1/events',
      filled('{"type":"credits.low","x":[', '{},', '1]}', 262_000),
      ['request_too_large'],
    ],
    ['keys in an event', '/v1/events', `{${Array.from({ length: 20_000 }, (_, i) => `"${i}":0`).join()}}`, []],
    ['a long key in an event', '/v1/events', filled('{"', 'k', '":1}', 262_000), []],
    ['strings in a webhook', '/v1/webhooks', filled('{"events":[', '"",', '""]}', 262_000), []],
  ];
  for (const [what, path, body, codes] of bombs) {
    it(`are kept for one that is made of ${what}`, async () => {
      const outcome = await sendWithinBounds(edge, path, { body }, Buffer.byteLength(body));
      if (codes.length > 0) expect(outcome.code, outcome.text.slice(0, 300)).to.be.oneOf(codes);
      expect(outcome.text.length).to.be.below(5_000);
    });
  }

  it('are kept, with a 413, for a few kilobytes that are megabytes when decompressed', async () => {
    for (const length of [mebibytes(4), mebibytes(31)]) {
      const bomb = filled(`{${hello},"x":[`, '{},', '1]}', length);
      for (const [encoding, body] of [
        ['gzip', gzipSync(bomb)],
        ['deflate', deflateSync(bomb)],
        ['br', brotliCompressSync(bomb, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } })],
      ] as const) {
        const outcome = await sendWithinBounds(edge, chat, { body, headers: { 'content-encoding': encoding } }, length);
        expect([outcome.status, outcome.code]).to.deep.equal([413, 'request_too_large']);
      }
    }
  });

  it('are kept, with a 413, for megabytes of compressed data that decompress to nothing', async () => {
    const empty = gzipSync('');
    for (const [path, length] of [
      [chat, mebibytes(64)],
      ['/v1/webhooks', mebibytes(1)],
    ] as const) {
      const body = Buffer.concat([gzipSync('{'), ...Array(Math.floor(length / empty.length)).fill(empty)]);
      const outcome = await sendWithinBounds(edge, path, { body, headers: { 'content-encoding': 'gzip' } }, length);
      expect([outcome.status, outcome.code]).to.deep.equal([413, 'request_too_large']);
    }
  });

  it('are enough for an ordinary compressed body', async () => {
    const text = Array.from({ length: 400_000 }, (_, i) => (i * 2_654_435_761) % 4_294_967_296).join(' ');
    const body = `{"model":"m","messages":[{"role":"user","content":"${text}"}]}`;
    const outcome = await sendWithinBounds(
      edge,
      chat,
      { body: gzipSync(body), headers: { 'content-encoding': 'gzip' } },
      body.length,
    );
    expect(outcome.status, outcome.text).to.equal(200);
  });
});
