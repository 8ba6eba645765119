import { expect } from 'chai';
import type OpenAI from 'openai';
import type { UsageRecord } from '../../src/index.ts';
import { type ModelServer, startModelServer } from '../support/model-server.ts';
import { until } from '../support/until.ts';
import { chunks, json, ScriptedUpstream } from '../support/upstream.ts';
import { ownedByAll } from './relay/endpoint-calls.ts';

describe('an image edit that says as JSON where its images are', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let client: OpenAI;
  let records: UsageRecord[];

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, aliases: { fast: 'vendor/image' } }],
      storedObjects: ownedByAll('one'),
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

  const images = [{ image_url: 'https://images.example.com/a.png' }, { file_id: 'file-1' }];
  const edit = { prompt: 'Let it be night', images, mask: { file_id: 'file-2' }, vendor: { kept: true } };
  const used = async () => {
    await until(() => records.length > 0);
    const { endpoint, model, inputTokens, outputTokens, images, ending } = records[0] as UsageRecord;
    return { endpoint, model, inputTokens, outputTokens, images, ending };
  };

  it('goes up as it came, with the name of the model replaced, and is counted', async () => {
    const usage = { input_tokens: 40, output_tokens: 60, total_tokens: 100 };
    upstream.script = json(200, { created: 1, data: [{ b64_json: 'AA' }, { b64_json: 'BB' }], usage });
    const answer = await client.post('/images/edits', { body: { model: 'fast', n: 2, user: null, ...edit } });
    expect(answer).to.deep.include({ usage });
    expect(upstream.last.path).to.equal('/v1/images/edits');
    expect(upstream.last.headers['content-type']).to.equal('application/json');
    const sent = { model: 'vendor/image', n: 2, user: null, ...edit };
    expect(upstream.last.body.toString()).to.equal(JSON.stringify(sent));
    expect(await used()).to.deep.equal({
      endpoint: '/images/edits',
      model: 'fast',
      inputTokens: 40,
      outputTokens: 60,
      images: 2,
      ending: 'complete',
    });
  });

  it('is streamed where it asks for it', async () => {
    const completed = { type: 'image_edit.completed', b64_json: 'AA', usage: { input_tokens: 4, output_tokens: 6 } };
    upstream.script = chunks([`event: image_edit.completed\ndata: ${JSON.stringify(completed)}\n\n`]);
    const response = await client.post('/images/edits', { body: { stream: true, ...edit } }).asResponse();
    expect(response.headers.get('content-type')).to.match(/^text\/event-stream/);
    expect(await response.text()).to.contain('image_edit.completed');
    expect(await used()).to.include({ model: null, inputTokens: 4, outputTokens: 6, images: 1, ending: 'complete' });
  });

  it('is checked as other JSON is', async () => {
    const refusal = (body: object | string) => client.post('/images/edits', { body }).then(String, (error) => error);
    expect(await refusal({ images })).to.include({ code: 'missing_required_parameter', param: 'prompt' });
    expect(await refusal({ ...edit, stream: 'yes' })).to.include({ code: 'invalid_type', param: 'stream' });
    expect(await refusal({ ...edit, images: [{ image_url: 5 }] })).to.include({
      code: 'invalid_type',
      param: 'images[0].image_url',
    });
    const headers = { 'content-type': 'text/plain' };
    expect(
      await client.post('/images/edits', { body: 'x', headers }).then(String, (error) => error.message),
    ).to.contain('multipart/form-data or application/json');
  });
});
