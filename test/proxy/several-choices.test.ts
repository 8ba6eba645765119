import { expect } from 'chai';
import OpenAI from 'openai';
import type { UsageRecord } from '../../src/index.ts';
import { type ModelServer, startModelServer } from '../support/model-server.ts';
import { until } from '../support/until.ts';
import { chunks, ScriptedUpstream } from '../support/upstream.ts';

const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }], stream: true as const };
const done = 'data: [DONE]\n\n';
const event = (...choices: object[]) => `data: ${JSON.stringify({ id: 'c', choices })}\n\n`;
const part = (index: number) => ({ index, delta: { content: 'Hi' }, text: 'Hi', finish_reason: null });
const last = (index: number) => ({ index, delta: {}, text: '', finish_reason: 'stop' });
/** Both choices have begun, and the first has ended. */
const cut = [event(part(0)), event(part(1)), event(last(0))];

/** What a call is rejected with; `undefined` if it is not. */
function thrownBy(call: () => Promise<unknown>): Promise<unknown> {
  return call().then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe('a stream of several choices', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let client: OpenAI;
  let records: UsageRecord[];

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, includeUsage: false }],
      hooks: { onUsage: (record) => void records.push(record) },
    });
    client = server.client();
  });

  beforeEach(() => {
    records = [];
  });

  after(async () => {
    await server.close();
    await upstream.close();
  });

  async function read(stream: AsyncIterable<{ readonly choices: readonly unknown[] }>): Promise<number> {
    let choices = 0;
    for await (const chunk of stream) choices += chunk.choices.length;
    return choices;
  }

  const chat = async (n: number) => read(await client.chat.completions.create({ ...ask, n }));
  const complete = async (body: object) =>
    read(await client.completions.create({ model: 'm', prompt: 'Hi', stream: true, ...body }));

  async function expectCut(call: Promise<unknown>): Promise<void> {
    const error = await thrownBy(() => call);
    expect(error).to.be.instanceOf(OpenAI.APIError).and.include({ code: 'upstream_disconnected' });
    await until(() => records.length > 0);
    expect(records[0]).to.include({ ending: 'upstream_failed' });
  }

  async function expectWhole(call: Promise<unknown>): Promise<void> {
    await call;
    await until(() => records.length > 0);
    expect(records[0]).to.include({ ending: 'complete' });
  }

  const bytewise = (parts: readonly string[]) => Array.from(Buffer.from(parts.join('')), (byte) => Buffer.from([byte]));

  const cuts: [what: string, parts: Iterable<string | Buffer>, call: () => Promise<unknown>][] = [
    ['one of two', cut, () => chat(2)],
    ['one of two, byte by byte', bytewise(cut), () => chat(2)],
    ['one of two, of which the other never began', [event(part(0)), event(last(0))], () => chat(2)],
    ['one of two, whose end comes twice', [...cut, event(last(0))], () => chat(2)],
    ['two of three, in one event', [event(part(0), part(1), part(2)), event(last(0), last(1))], () => chat(3)],
    [
      'one of two, beside a tool whose arguments have choices',
      [
        event({ index: 0, delta: { tool_calls: [{ index: 1, function: { arguments: '{"choices":[{"index":1' } }] } }),
        event(last(0)),
      ],
      () => chat(2),
    ],
    ['one of two prompts', cut, () => complete({ prompt: ['Hi', 'Ho'] })],
    ['one of two prompts in tokens', cut, () => complete({ prompt: [[1], [2]] })],
    [
      'three of four, two for each prompt',
      [event(part(0), part(1), part(2), part(3)), event(last(0), last(2), last(3))],
      () => complete({ prompt: ['Hi', 'Ho'], n: 2 }),
    ],
  ];
  for (const [what, parts, call] of cuts) {
    it(`is cut where it ends cleanly when not all have ended: ${what}`, async () => {
      upstream.script = chunks(parts);
      await expectCut(call());
    });
  }

  it('ends in an error event, and without [DONE]', async () => {
    upstream.script = chunks(cut);
    const answer = await (await client.chat.completions.create({ ...ask, n: 2 }).asResponse()).text();
    expect(answer.startsWith(cut.join(''))).to.equal(true);
    expect(answer.slice(cut.join('').length)).to.match(/^data: \{"error":\{.*upstream_disconnected.*\}\}\n\n$/);
  });

  const large = { ...last(1), logprobs: 'x'.repeat(100_000) };
  const whole: [what: string, parts: Iterable<string | Buffer>, call: () => Promise<unknown>][] = [
    ['all have ended', [...cut, event(last(1))], () => chat(2)],
    ['all have ended, byte by byte', bytewise([...cut, event(last(1))]), () => chat(2)],
    ['all have ended at once', [event(last(0), last(1))], () => chat(2)],
    ['the end of one is too large to be read', [...cut, event(large)], () => chat(2)],
    ['[DONE] came of a provider that knows no n', [event(part(0)), event(last(0)), done], () => chat(2)],
    ['[DONE] came', [...cut, done], () => chat(2)],
    ['the only one has ended', [event(part(0)), event(last(0))], () => chat(1)],
    ['the best of three has ended', [event(part(0)), event(last(0))], () => complete({ best_of: 3 })],
    ['the prompt of many tokens has ended', [event(last(0))], () => complete({ prompt: [1, 2, 3] })],
    ['all prompts have ended', [...cut, event(last(1))], () => complete({ prompt: ['Hi', 'Ho'] })],
  ];
  for (const [what, parts, call] of whole) {
    it(`is whole where ${what}`, async () => {
      upstream.script = chunks(parts);
      await expectWhole(call());
    });
  }
});
