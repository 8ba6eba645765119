import Anthropic, { toFile } from '@anthropic-ai/sdk';
import { expect } from 'chai';
import OpenAI from 'openai';
import type { UsageRecord } from '../../src/index.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { json, type Script, ScriptedUpstream } from '../support/upstream.ts';

const params = { model: 'claude', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Which river?' }] };
const usage = {
  ...{ input_tokens: 400, cache_read_input_tokens: 400, cache_creation_input_tokens: 200, output_tokens: 500 },
  cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 100 },
};
const message = {
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', stop_reason: 'end_turn', usage },
  content: [{ type: 'text', text: 'The Douro.' }],
};
const results = [
  { custom_id: 'a', result: { type: 'succeeded', message } },
  {
    custom_id: 'b',
    result: { type: 'errored', error: { type: 'error', error: { type: 'api_error', message: 'No' } } },
  },
];

/** Batches and files, as Anthropic keeps them for one key. */
class MessageProvider {
  readonly upstream: ScriptedUpstream;
  readonly ended = new Set<string>();
  #made = 0;

  constructor(upstream: ScriptedUpstream) {
    this.upstream = upstream;
    upstream.script = (res, request) => this.#answer(request.method, request.path)(res, request);
  }

  #batch(id: string) {
    const hasEnded = this.ended.has(id);
    const counts = { processing: hasEnded ? 0 : 2, succeeded: hasEnded ? 1 : 0, errored: hasEnded ? 1 : 0 };
    return {
      ...{ id, type: 'message_batch', processing_status: hasEnded ? 'ended' : 'in_progress' },
      request_counts: { ...counts, canceled: 0, expired: 0 },
      results_url: hasEnded ? `${this.upstream.baseUrl}/messages/batches/${id}/results` : null,
    };
  }

  #answer(method: string, path: string): Script {
    const [, , kind, ...rest] = (path.split('?')[0] as string).split('/');
    if (kind === 'messages' && rest[0] !== 'batches') return json(200, message);
    const [id = '', what] = kind === 'messages' ? rest.slice(1) : rest;
    if (method === 'POST' && id === '') {
      this.#made += 1;
      if (kind === 'messages') return json(200, this.#batch(`msgbatch_${this.#made}`));
      return json(200, this.#file(`file_${this.#made}`));
    }
    if (what === 'cancel') this.ended.add(id);
    if (what === 'results') return json(200, Buffer.from(results.map((each) => `${JSON.stringify(each)}\n`).join('')));
    if (what === 'content') return json(200, Buffer.from('the bytes'), { 'content-type': 'text/plain' });
    if (method === 'DELETE')
      return json(200, { id, type: kind === 'messages' ? 'message_batch_deleted' : 'file_deleted' });
    return json(200, kind === 'messages' ? this.#batch(id) : this.#file(id));
  }

  #file(id: string) {
    const made = { mime_type: 'text/plain', size_bytes: 9, created_at: '2026-01-01T00:00:00Z' };
    return { id, type: 'file', filename: 'rivers.txt', ...made, downloadable: true };
  }
}

const failure = (promise: PromiseLike<unknown>) =>
  Promise.resolve(promise).then(
    () => undefined,
    (error) => error,
  );

describe("what Anthropic's API keeps for accounts", () => {
  let upstream: ScriptedUpstream;
  let openai: ScriptedUpstream;
  let provider: MessageProvider;
  let live: LiveGateway;
  let client: Anthropic;
  let stranger: Anthropic;
  let records: UsageRecord[];

  before(async () => {
    upstream = await ScriptedUpstream.start();
    openai = await ScriptedUpstream.start();
    provider = new MessageProvider(upstream);
    live = await startGateway({
      upstreams: [
        { name: 'openai', baseUrl: openai.baseUrl },
        {
          name: 'anthropic',
          baseUrl: upstream.baseUrl,
          apiKey: 'sk-upstream',
          speaks: ['anthropic'],
          models: ['claude', 'other'],
          aliases: { fast: 'claude' },
          priority: 1,
        },
      ],
      background: { pollInterval: 20 },
      credits: {
        prices: { '*': { input: 1_000, cachedInput: 100, cacheWrite: 1_250, output: 1_000, batch: 0.5 } },
        initialBalance: 10,
      },
      onUsage: (record) => void records.push(record),
    });
    const clientOf = (apiKey: string) => new Anthropic({ apiKey, baseURL: live.url, maxRetries: 0 });
    client = clientOf(live.key);
    stranger = clientOf((await live.gateway.keys.create({ userId: 'usr_2' })).key);
  });
  beforeEach(() => {
    records = [];
    upstream.requests.length = 0;
  });
  after(async () => {
    expect(openai.requests).to.deep.equal([]);
    await live.close();
    await upstream.close();
    await openai.close();
  });

  const newBatch = (more: object = {}) =>
    client.messages.batches.create({
      requests: ['a', 'b'].map((custom_id) => ({ custom_id, params: { ...params, ...more } })),
    });

  it('is a batch whose results come through the gateway, and which is paid for at its price when it has ended', async () => {
    const { id, results_url: early } = await newBatch();
    expect(early).to.equal(null);
    expect((await client.messages.batches.retrieve(id)).processing_status).to.equal('in_progress');
    provider.ended.add(id);
    const ended = await client.messages.batches.retrieve(id);
    expect(ended.results_url).to.equal(`/v1/messages/batches/${id}/results`);
    const read: unknown[] = [];
    for await (const result of await client.messages.batches.results(id)) read.push(result);
    expect(read).to.deep.equal(results);
    for (const { headers } of upstream.requests) expect(headers['x-api-key']).to.equal('sk-upstream');
    await until(() => records.length > 0);
    const amounts = { inputTokens: 1_000, cachedInputTokens: 400, outputTokens: 500, estimated: false };
    expect(records[0]).to.include({ endpoint: '/messages/batches', model: 'claude', ...amounts, ending: 'complete' });
    expect(records[0]).to.include({ cacheWriteTokens: 200, cacheWriteHourTokens: 100 });
    // half of 400 at 1,000, 400 at 100, 100 at 1,250, 100 at 2,000 and 500 at 1,000
    const left = async () => (await live.gateway.credits?.balance('usr_1'))?.creditsRemaining ?? 0;
    await until(async () => Math.round((10 - (await left())) * 1e6) === 632_500);
    expect(await client.messages.batches.delete(id)).to.include({ id, type: 'message_batch_deleted' });
    expect((await failure(client.messages.batches.retrieve(id))) as object).to.be.instanceOf(Anthropic.NotFoundError);
  });

  it('is listed, canceled, and not deleted before it is counted', async () => {
    const ids = [(await newBatch()).id, (await newBatch()).id, (await newBatch()).id];
    const conflict = await failure(client.messages.batches.delete(ids[0] as string));
    expect(conflict).to.be.instanceOf(Anthropic.ConflictError);
    const listed: string[] = [];
    for await (const { id } of client.messages.batches.list({ limit: 2 })) listed.push(id);
    expect(listed.slice(0, 3)).to.deep.equal(ids.toReversed());
    for (const id of ids) await client.messages.batches.cancel(id);
    await until(() => records.length === ids.length);
    const { data } = await client.messages.batches.list({ limit: 3 });
    expect(data.map(({ results_url }) => results_url)).to.deep.equal(
      ids.toReversed().map((id) => `/v1/messages/batches/${id}/results`),
    );
  });

  it('is read before it goes up', async () => {
    const { key } = await live.gateway.keys.create({ userId: 'usr_1', models: ['other'] });
    const limited = new Anthropic({ apiKey: key, baseURL: live.url, maxRetries: 0 });
    const requests = [{ custom_id: 'a', params }];
    for (const [call, status, says] of [
      [() => newBatch({ model: 'fast' }), 400, 'a name that only the gateway knows'],
      [() => newBatch({ model: 'unknown' }), 404, 'does not exist'],
      [() => newBatch({ model: undefined }), 400, 'requests[0].params.model'],
      [() => newBatch({ container: 'container_1' }), 404, 'container_1'],
      [() => newBatch({ max_tokens: 10_000_000 }), 402, 'may cost'],
      [() => client.messages.batches.create({ requests: [] }), 400, 'requests'],
      [() => limited.messages.batches.create({ requests }), 403, 'may not call'],
      [
        () =>
          client.messages.batches.create({
            requests: [...requests, { custom_id: 'b', params: { ...params, model: 'other' } }],
          }),
        400,
        'must be claude',
      ],
    ] as const) {
      const error = await failure(call());
      expect([error?.status, error?.message]).to.satisfy(
        ([given, text]: [number, string]) => given === status && text.includes(says),
        `${says}: ${error}`,
      );
    }
    const twice = `{"requests":[{"custom_id":"a","params":{"model":"claude","model":"unknown","max_tokens":1,"messages":[]}}]}`;
    const headers = { 'x-api-key': live.key, 'content-type': 'application/json' };
    const refused = await fetch(`${live.url}/v1/messages/batches`, { method: 'POST', headers, body: twice });
    expect(refused.status).to.equal(400);
    expect(upstream.requests).to.deep.equal([]);
  });

  it('is nothing to another account', async () => {
    const { id } = await newBatch();
    await client.messages.batches.cancel(id);
    // the gateway asks for it until it is counted
    await until(() => records.length > 0);
    const file = await client.files.upload({ file: await toFile(Buffer.from('rivers'), 'rivers.txt') });
    const source = { type: 'file' as const, file_id: file.id };
    const ask = { ...params, messages: [{ role: 'user' as const, content: [{ type: 'document' as const, source }] }] };
    upstream.requests.length = 0;
    for (const call of [
      () => stranger.messages.batches.retrieve(id),
      () => stranger.messages.batches.cancel(id),
      () => stranger.messages.batches.delete(id),
      () => stranger.messages.batches.results(id),
      () => stranger.files.retrieveMetadata(file.id),
      () => stranger.files.delete(file.id),
      () => stranger.files.download(file.id),
      () => stranger.messages.create(ask as never),
      () => stranger.messages.batches.create({ requests: [{ custom_id: 'a', params: ask as never }] }),
    ]) {
      expect(await failure(call()))
        .to.be.instanceOf(Anthropic.NotFoundError)
        .with.property('type', 'not_found_error');
    }
    expect((await stranger.messages.batches.list()).data).to.deep.equal([]);
    expect((await stranger.files.list()).data).to.deep.equal([]);
    expect(upstream.requests).to.deep.equal([]);
    expect((await client.messages.create(ask as never)).id).to.equal('msg_1');
  });

  it('is a file that its account lists and reads by this API alone', async () => {
    const file = await client.files.upload({ file: await toFile(Buffer.from('rivers'), 'rivers.txt') });
    expect(file.filename).to.equal('rivers.txt');
    expect(upstream.last.headers).to.include({ 'x-api-key': 'sk-upstream' });
    const listed: string[] = [];
    for await (const { id } of client.files.list({ limit: 1 })) listed.push(id);
    expect(listed).to.include(file.id);
    const { body: kept } = await live.call('GET', '/v1/stored_objects?kind=file');
    expect(kept.data[0]).to.include({ id: file.id, name: 'rivers.txt', bytes: 9 });
    expect(await (await client.files.download(file.id)).text()).to.equal('the bytes');
    const other = new OpenAI({ apiKey: live.key, baseURL: `${live.url}/v1`, maxRetries: 0 });
    expect((await other.files.list()).data).to.deep.equal([]);
    expect(await failure(other.files.retrieve(file.id))).to.include({ status: 404, code: 'file_not_found' });
    expect(await client.files.delete(file.id)).to.include({ id: file.id, type: 'file_deleted' });
    expect(await failure(client.files.retrieveMetadata(file.id))).to.be.instanceOf(Anthropic.NotFoundError);
  });
});
