import { expect } from 'chai';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

describe('a long model name', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({ upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }] });
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  const call = async (path: string, body?: object) => {
    const headers = { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' };
    const init = body ? { method: 'POST', body: JSON.stringify(body) } : {};
    const answer = await fetch(`${server.baseUrl}${path}`, { headers, ...init });
    const { error } = (await answer.json()) as { error?: { code: string; param: string; message: string } };
    return { status: answer.status, error };
  };
  const messages = (length: number) => [{ role: 'user', content: 'a'.repeat(length) }];

  for (const [title, length] of [
    ['a short body', 10],
    ['a long body', 10_000],
  ] as const) {
    it(`is refused in ${title}`, async () => {
      upstream.script = json(200, { choices: [{}] });
      const taken = await call('/chat/completions', { model: '模'.repeat(256), messages: messages(length) });
      expect(taken.status).to.equal(200);
      const before = upstream.requests.length;
      for (const model of ['m'.repeat(257), 'm'.repeat(100_000), '模'.repeat(257)]) {
        const { status, error } = await call('/chat/completions', { model, messages: messages(length) });
        expect(status).to.equal(400);
        expect(error).to.include({
          code: 'invalid_value',
          param: 'model',
          message: 'model: must be a string of 1 to 256 characters',
        });
      }
      for (const [path, rest] of [
        ['/completions', { prompt: 'a' }],
        ['/embeddings', { input: 'a'.repeat(length) }],
        ['/images/generations', { prompt: 'a'.repeat(length) }],
      ] as const) {
        expect((await call(path, { model: 'm'.repeat(257), ...rest })).error).to.include({
          code: 'invalid_value',
          param: 'model',
        });
      }
      expect(upstream.requests.length).to.equal(before);
    });
  }

  it('is refused in a path', async () => {
    expect((await call(`/models/${'m'.repeat(257)}`)).error).to.include({ code: 'invalid_value', param: 'model' });
  });
});
