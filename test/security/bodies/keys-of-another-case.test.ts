import { expect } from 'chai';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

/** Go's encoding/json takes a key for a field that equals it under simple case folding: ſ is an s there, and the Kelvin sign a k. */
describe('a body whose keys another parser reads differently', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [{}] });
    const one = { name: 'one', baseUrl: upstream.baseUrl, models: ['cheap', 'dear'] };
    server = await startModelServer({ upstreams: [one] });
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  const call = async (body: string, path = '/chat/completions') => {
    const headers = { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' };
    const answer = await fetch(`${server.baseUrl}${path}`, { method: 'POST', headers, body });
    const { error } = (await answer.json()) as { error?: { code: string; param: string } };
    return { status: answer.status, error };
  };
  const chat = (extra: string) => `{"model":"cheap","messages":[{"role":"user","content":"Hi"}]${extra}}`;

  it('reaches the upstream when its unknown keys equal no known key in any case', async () => {
    expect((await call(chat(',"models":1,"mod el":2,"metadata":{"Model":"kept"}'))).status).to.equal(200);
  });

  for (const [title, extra] of [
    ['a model in capitals', ',"Model":"dear"'],
    ['an escaped model', ',"\\u004dodel":"dear"'],
    ['a stream of another case', ',"stream":false,"STREAM":true'],
    ['a stream with a long s', ',"\u017ftream":true'],
    ['an escaped long s', ',"\\u017ftream":true'],
    ['max_tokens with a Kelvin sign', ',"max_to\u212aens":1'],
    ['a number of choices in a capital', ',"N":128'],
    ['an option of streams', ',"stream_options":{"Include_Usage":false}'],
    ['messages of another case', ',"Messages":[]'],
  ] as const) {
    it(`is refused before the upstream is called: ${title}`, async () => {
      const before = upstream.requests.length;
      const { status, error } = await call(chat(extra));
      expect(status).to.equal(400);
      expect(error?.code).to.equal('unknown_parameter');
      expect(upstream.requests.length).to.equal(before);
    });
  }

  it('is refused when it has a key twice that the gateway reads', async () => {
    for (const extra of [
      ',"model":"dear"',
      ',"mode\\u006c":"dear"',
      ',"stream_options":{"include_usage":true,"include_usage":false}',
    ]) {
      const { status, error } = await call(chat(extra));
      expect([status, error?.code]).to.deep.equal([400, 'duplicate_parameter']);
    }
  });
});
