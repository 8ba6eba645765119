import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { expect } from 'chai';
import fc from 'fast-check';
import { json, ScriptedUpstream } from '../../support/upstream.ts';
import { type MeasuredEdge, sendWithinBounds, startMeasuredEdge } from './bounds.ts';
import { mutatedForms } from './form-judges/mutated.ts';

const bodies = 4_000;
const forms = 3_000;
const paths = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/images/generations',
  '/v1/events',
  '/v1/webhooks',
];

const word = fc.constantFrom(
  ...[
    '"a"',
    '""',
    '"\\u0041\\ud800"',
    '"\\u017ftream"',
    '"Model"',
    '"model"',
    '"messages"',
    '"stream_options"',
    '"input"',
  ],
  ...[
    '{}',
    '[]',
    '0',
    '-1.5e9',
    '1e400',
    '12345678901234567890',
    'true',
    'null',
    '"\u2028é😀"',
    '"\\"',
    'NaN',
    '',
    ' ',
    '{"role":"u"}',
  ],
);
const times = fc.oneof(
  { weight: 20, arbitrary: fc.nat(50) },
  { weight: 3, arbitrary: fc.nat(3_000) },
  { weight: 1, arbitrary: fc.nat(60_000) },
);

/** What a provider may be sent, with anything beside it that this gateway does not know. */
const ordinary = fc
  .tuple(fc.string({ unit: 'binary' }), fc.jsonValue(), fc.boolean(), times)
  .map(([content, beside, stream, count]) =>
    JSON.stringify({
      model: 'm',
      stream,
      messages: [{ role: 'user', content: content.repeat(count) }],
      input: content || 'x',
      prompt: content || 'x',
      beside,
    }),
  );

/** JSON, or nearly: deep, wide, with many keys, long ones, the same ones, long strings, numbers and escapes. */
const text = fc.oneof(
  ordinary,
  ordinary,
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.tuple(word, times).map(([part, count]) => `{"model":"m","messages":[${Array(count).fill(part).join()}]}`),
  fc.tuple(word, times).map(([part, count]) => `{"model":"m","input":[[${Array(count).fill(part).join()}]]}`),
  fc.tuple(fc.constantFrom('[', '{"a":', '[{"x":['), times).map(([open, count]) => open.repeat(count)),
  fc
    .tuple(fc.constantFrom('x', 'é', '\\u00e9', '\\\\', '\\"', '\t', '\\x'), times)
    .map(([part, count]) => `{"model":"${part.repeat(count)}"}`),
  fc
    .tuple(word, times)
    .map(([part, count]) => `{${Array.from({ length: count }, (_, i) => `"k${i}":${part || 1}`).join()}}`),
  fc.tuple(word, times).map(([key, count]) => `{${Array(count).fill(`${key}:1`).join()}}`),
  fc.tuple(fc.constantFrom('1', '0', '9e', '-', '.5'), times).map(([digit, count]) => `{"n":${digit.repeat(count)}}`),
  fc
    .tuple(fc.constantFrom(' ', '\n', '\ufeff', ','), times)
    .map(([space, count]) => `{"model"${space.repeat(count)}:1}`),
);

const encodings: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  identity: (bytes) => bytes,
  gzip: (bytes) => gzipSync(bytes, { level: 1 }),
  deflate: (bytes) => deflateSync(bytes, { level: 1 }),
  br: (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
};

const hostile = fc.record({
  path: fc.constantFrom(...paths),
  text,
  encoding: fc.constantFrom('identity', 'identity', 'identity', 'gzip', 'deflate', 'br'),
  /** A byte that is put in, and where. */
  stray: fc.option(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(255)), { freq: 4 }),
  /** How much of the compressed or plain bytes is sent. */
  kept: fc.oneof(
    { weight: 5, arbitrary: fc.constant(1) },
    { weight: 1, arbitrary: fc.double({ min: 0.1, max: 1, noNaN: true }) },
  ),
});

describe('any body', () => {
  let upstream: ScriptedUpstream;
  let edge: MeasuredEdge;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [{}], data: [{}] });
    edge = await startMeasuredEdge(upstream.baseUrl);
  });
  after(async () => {
    await edge.close();
    await upstream.close();
  });

  it('is relayed or answered with an error code, within the limits of CPU time and memory', async function () {
    // takes half a minute, and more on a busy machine
    this.timeout(240_000);
    const statuses = new Map<number, number>();
    await fc.assert(
      fc.asyncProperty(hostile, async ({ path, text: plain, encoding, stray, kept }) => {
        const bytes = Buffer.from(plain);
        if (stray && bytes.length > 0) bytes[Math.floor(stray[0] * (bytes.length - 1))] = stray[1];
        const encoded = (encodings[encoding] as (plain: Buffer) => Buffer)(bytes);
        const body = encoded.subarray(0, Math.ceil(kept * encoded.length));
        const headers = encoding === 'identity' ? {} : { 'content-encoding': encoding };
        const { status, code, text: answer } = await sendWithinBounds(edge, path, { body, headers }, bytes.length);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        expect(status, answer).to.be.oneOf([200, 400, 413]);
        if (status !== 200) expect(code, answer).to.be.a('string');
        if (status !== 200) expect(answer.length).to.be.below(5_000);
      }),
      { numRuns: bodies },
    );
    // cases that all end at the same check would show little
    for (const status of [200, 400, 413]) expect(statuses.get(status), `answers ${status}`).to.be.at.least(10);
  });

  it('that is a form is relayed or refused, within the limits of CPU time and memory', async function () {
    this.timeout(240_000);
    const statuses = new Map<number, number>();
    await fc.assert(
      fc.asyncProperty(mutatedForms, async ({ type, body }) => {
        const headers = { 'content-type': type.replaceAll(/[^\x20-\x7e]/g, '') };
        const { status, text: answer } = await sendWithinBounds(edge, '/v1/images/edits', { body, headers });
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        expect(status, answer).to.be.oneOf([200, 400, 413, 415]);
      }),
      { numRuns: forms },
    );
    for (const status of [200, 400]) expect(statuses.get(status), `answers ${status}`).to.be.at.least(10);
  });
});
