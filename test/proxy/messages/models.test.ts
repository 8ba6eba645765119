import Anthropic from '@anthropic-ai/sdk';
import { expect } from 'chai';
import { callerKey, limitedKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const sonnet = {
  ...{ type: 'model', id: 'claude-sonnet-4-5', display_name: 'Claude Sonnet 4.5' },
  created_at: '2025-09-29T00:00:00Z',
};
const haiku = { ...sonnet, id: 'claude-haiku-4-5', display_name: 'Claude Haiku 4.5' };
const gpt = { id: 'gpt-1', object: 'model', created: 1_767_225_600, owned_by: 'openai' };
const llama = { ...gpt, id: 'llama', owned_by: 'meta' };

describe('the list of models that each API shows', () => {
  let anthropic: ScriptedUpstream;
  let openai: ScriptedUpstream;
  let both: ScriptedUpstream;
  let server: ModelServer;
  let client: Anthropic;

  before(async () => {
    anthropic = await ScriptedUpstream.start();
    openai = await ScriptedUpstream.start();
    both = await ScriptedUpstream.start();
    anthropic.script = json(200, { data: [sonnet, haiku], has_more: false, first_id: sonnet.id, last_id: haiku.id });
    openai.script = json(200, { object: 'list', data: [gpt] });
    both.script = json(200, { object: 'list', data: [llama] });
    server = await startModelServer({
      upstreams: [
        { name: 'anthropic', baseUrl: anthropic.baseUrl, apiKey: 'key', speaks: ['anthropic'] },
        { name: 'openai', baseUrl: openai.baseUrl, models: ['gpt-*'] },
        { name: 'both', baseUrl: both.baseUrl, models: ['llama'], speaks: ['openai', 'anthropic'] },
      ],
    });
    client = new Anthropic({ apiKey: callerKey, baseURL: server.baseUrl.replace(/\/v1$/, ''), maxRetries: 0 });
  });
  after(async () => {
    await server.close();
    await Promise.all([anthropic, openai, both].map((upstream) => upstream.close()));
  });

  it("has for Anthropic's client what its API can call, page by page", async () => {
    const listed = [];
    for await (const model of client.models.list({ limit: 2 })) listed.push(model);
    expect(listed.map(({ id }) => id)).to.deep.equal([sonnet.id, haiku.id, 'llama']);
    expect(listed[0]).to.deep.include(sonnet);
    expect(listed[2]).to.include({ type: 'model', display_name: 'llama', created_at: '2026-01-01T00:00:00.000Z' });
    const { data, has_more, first_id, last_id } = await client.models.list({ limit: 1, after_id: sonnet.id });
    expect([data.map(({ id }) => id), has_more, first_id, last_id]).to.deep.equal([
      [haiku.id],
      true,
      haiku.id,
      haiku.id,
    ]);
    const before = await client.models.list({ limit: 1, before_id: 'llama' });
    expect([before.data.map(({ id }) => id), before.has_more]).to.deep.equal([[haiku.id], true]);
    expect(anthropic.requests[0]).to.deep.include({ method: 'GET', path: '/v1/models?limit=1000' });
    expect(anthropic.requests[0]?.headers).to.include({ 'anthropic-version': '2023-06-01', 'x-api-key': 'key' });
    expect(both.requests[0]).to.include({ path: '/v1/models' });
    expect(both.requests[0]?.headers).not.to.have.any.keys('anthropic-version');
  });

  it("has for OpenAI's client what its API can call, as it was", async () => {
    const { data } = await server.client().models.list();
    expect(data).to.deep.equal([gpt, llama]);
    const headers = { authorization: `Bearer ${callerKey}` };
    const paged = await fetch(`${server.baseUrl}/models?limit=1`, { headers });
    expect(paged.status).to.equal(400);
    expect(await paged.json()).to.have.nested.property('error.code', 'unknown_parameter');
  });

  it('has each model for who can call it', async () => {
    expect(await client.models.retrieve(sonnet.id)).to.deep.include(sonnet);
    expect(await client.beta.models.retrieve('llama')).to.include({ id: 'llama', type: 'model' });
    const gone = await client.models.retrieve(gpt.id).then(
      () => undefined,
      (error) => error,
    );
    expect(gone).to.be.instanceOf(Anthropic.NotFoundError).with.property('type', 'not_found_error');
    expect(await server.client().models.retrieve(gpt.id)).to.deep.equal(gpt);
    const other = await server
      .client()
      .models.retrieve(sonnet.id)
      .catch((error) => error);
    expect(other).to.include({ status: 404, code: 'model_not_found' });
  });

  it('has no model that the key may not call, and refuses a page that it cannot find', async () => {
    const limited = new Anthropic({ apiKey: limitedKey, baseURL: client.baseURL, maxRetries: 0 });
    expect((await limited.models.list()).data).to.deep.equal([]);
    const error = await client.models.list({ after_id: 'other' }).then(
      () => undefined,
      (thrown) => thrown,
    );
    expect(error).to.be.instanceOf(Anthropic.BadRequestError).with.property('type', 'invalid_request_error');
  });
});
