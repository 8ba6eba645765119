import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import type { UsageRecord } from '../../src/index.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { FileProvider } from './file-provider.ts';
import { failure } from './support.ts';

const chat = '/v1/chat/completions';
const question = { model: 'm', messages: [{ role: 'user', content: 'Which river?' }], max_tokens: 10 };
const usage = { input_tokens: 1_000, output_tokens: 500, total_tokens: 1_500 };

/** A line of a file of requests. */
const line = (body: object, url = chat) => JSON.stringify({ custom_id: 'a', method: 'POST', url, body });

describe('batches', () => {
  let provider: FileProvider;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateway: LiveGateway;
  let client: OpenAI;
  let stranger: OpenAI;
  /** Those of batches: files that go up and down have some, too. */
  let records: UsageRecord[];

  const start = () =>
    startGateway({
      mongo: database.connection,
      upstreams: [
        { name: 'one', baseUrl: provider.baseUrl, apiKey: 'sk-up', models: ['m', 'n', 'fast'], aliases: { fast: 'm' } },
      ],
      background: { pollInterval: 20 },
      credits: {
        prices: {
          '*': { input: 1_000, output: 1_000, batch: 0.5 },
          n: { input: 1_000, output: 1_000, image: 0.2, batch: 0.5 },
        },
        initialBalance: 10,
      },
      onUsage: (record) => {
        if (!record.stored) records.push(record);
      },
    });
  const clientOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });

  before(async () => {
    provider = await FileProvider.start();
    database = await freshDatabase();
    gateway = await start();
    client = clientOf(gateway.key);
    stranger = clientOf((await gateway.gateway.keys.create({ userId: 'usr_2' })).key);
  });
  beforeEach(() => {
    records = [];
  });
  after(async () => {
    await gateway.close();
    await database.drop();
    await provider.close();
  });

  const newFile = async (text: string, by = client) =>
    (await by.files.create({ file: await toFile(Buffer.from(text), 'a.jsonl'), purpose: 'batch' })).id;
  const batchOf = async (text: string, by = client, endpoint: OpenAI.BatchCreateParams['endpoint'] = chat) =>
    by.batches.create({ input_file_id: await newFile(text, by), endpoint, completion_window: '24h' });
  const newBatch = (by = client) => batchOf(`${line(question)}\n${line(question)}\n`, by);
  const end = (id: string, change: object) =>
    provider.batches.set(id, { ...provider.batches.get(id), status: 'completed', ...change });

  it('are created, listed, read and cancelled by their account alone', async () => {
    const { id } = await newBatch();
    const other = await newBatch(stranger);
    expect((await client.batches.retrieve(id)).status).to.equal('validating');
    expect((await client.batches.list()).data.map((batch) => batch.id)).to.deep.equal([id]);
    for (const refused of [client.batches.retrieve(other.id), client.batches.cancel(other.id)]) {
      expect((await failure(refused)).code).to.equal('batch_not_found');
    }
    expect((await client.batches.cancel(id)).status).to.equal('cancelling');
    end(id, { status: 'cancelled' });
    end(other.id, { status: 'cancelled' });
    await until(() => records.length === 2);
  });

  it('are counted and charged once by what their provider reports, at the price of a batch, when they have ended', async () => {
    const { creditsRemaining: before = 0 } = (await gateway.gateway.credits?.balance('usr_1')) ?? {};
    const { id } = await newBatch();
    const asked = () => provider.seen.filter(({ path }) => path === `/batches/${id}`).length;
    await until(() => asked() > 2);
    expect(records).to.deep.equal([]);
    end(id, { usage });
    await until(() => records.length > 0);
    expect(records).to.have.length(1);
    expect(records[0]).to.include({
      endpoint: '/batches',
      model: 'm',
      upstream: 'one',
      inputTokens: 1_000,
      outputTokens: 500,
      estimated: false,
      ending: 'complete',
    });
    await until(async () => (await gateway.gateway.credits?.balance('usr_1'))?.creditsRemaining !== before);
    const after = (await gateway.gateway.credits?.balance('usr_1'))?.creditsRemaining ?? 0;
    expect(Math.round((before - after) * 1_000)).to.equal(750);
    await client.batches.retrieve(id);
    expect(records).to.have.length(1);
  });

  it('that say no usage are counted by the answers in their output file', async () => {
    const { id } = await newBatch();
    const answer = { usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 } };
    const answers = [
      { response: { status_code: 200, body: answer } },
      { response: null },
      { response: { body: answer } },
    ];
    const output = provider.keep(
      Buffer.from(answers.map((one) => JSON.stringify(one)).join('\r\n')),
      'out',
      'batch_output',
    );
    end(id, { output_file_id: output.id });
    await until(() => records.length > 0);
    expect(records[0]).to.include({ inputTokens: 14, outputTokens: 6, estimated: false, ending: 'complete' });
    expect(await (await client.files.content(output.id)).text()).to.include('"prompt_tokens":7');
    expect((await failure(stranger.files.retrieve(output.id))).code).to.equal('file_not_found');
  });

  it('whose answers do not say their usage are counted by their bytes, and no more output than was asked for', async () => {
    const { id } = await newBatch();
    const answer = { response: { status_code: 200, body: { text: 'x'.repeat(3_000) } } };
    const output = provider.keep(Buffer.from(JSON.stringify(answer)), 'out', 'batch_output');
    end(id, { output_file_id: output.id });
    await until(() => records.length > 0);
    expect(records[0]).to.include({ outputTokens: 20, estimated: true });
    expect(records[0]?.inputTokens).to.be.above(20);
  });

  it('are counted also if they have ended at once, or their provider speaks of them in other words', async () => {
    for (const status of ['completed', 'VALIDATING', undefined]) {
      records = [];
      provider.newBatch = { status };
      const { id } = await newBatch();
      await until(() => provider.seen.filter(({ path }) => path === `/batches/${id}`).length > 1);
      expect(records).to.deep.equal([]);
      end(id, { usage });
      await until(() => records.length > 0);
      expect(records).to.have.length(1);
    }
    provider.newBatch = { id: undefined };
    expect((await failure(newBatch())).code).to.equal('upstream_invalid_response');
    provider.newBatch = {};
  });

  it('are counted before a file that they have made is deleted', async () => {
    const slow = await startGateway({
      upstreams: [{ name: 'one', baseUrl: provider.baseUrl }],
      background: { pollInterval: 60_000 },
      onUsage: (record) => {
        if (!record.stored) records.push(record);
      },
    });
    const by = new OpenAI({ apiKey: slow.key, baseURL: `${slow.url}/v1`, maxRetries: 0 });
    const { id } = await newBatch(by);
    const answer = { response: { body: { usage: { prompt_tokens: 7, completion_tokens: 3 } } } };
    const output = provider.keep(Buffer.from(JSON.stringify(answer)), 'out', 'batch_output');
    end(id, { output_file_id: output.id });
    await by.batches.list();
    await by.files.delete(output.id);
    expect(records.map(({ outputTokens }) => outputTokens)).to.deep.equal([3]);
    await slow.close();
  });

  it('are not given up because their provider does not know them for a while', async () => {
    const { id } = await newBatch();
    const kept = provider.batches.get(id) ?? {};
    provider.batches.delete(id);
    const asked = () => provider.seen.filter(({ path }) => path === `/batches/${id}`).length;
    await until(() => asked() > 8);
    expect(records).to.deep.equal([]);
    provider.batches.set(id, { ...kept, status: 'completed', usage });
    await until(() => records.length > 0);
    expect(records[0]).to.include({ inputTokens: 1_000, estimated: false });
  });

  it('are made once, although their provider gives no answer', async () => {
    const input_file_id = await newFile(line(question));
    const patient = new OpenAI({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, maxRetries: 2 });
    let posts = 0;
    const content = provider.content(input_file_id);
    provider.onRequest = (req, res) => {
      if (req.method === 'GET') return void res.end(content);
      posts += 1;
      req.socket.destroy();
    };
    const made = patient.batches.create({ input_file_id, endpoint: chat, completion_window: '24h' });
    expect((await failure(made)).code).to.equal('upstream_disconnected');
    provider.onRequest = undefined;
    expect(posts).to.equal(1);
  });

  it('make files that a key reads only if it may call their model', async () => {
    const { id } = await newBatch();
    const output = provider.keep(Buffer.from('{}'), 'out', 'batch_output');
    end(id, { usage, output_file_id: output.id });
    await client.batches.retrieve(id);
    const { key } = await gateway.gateway.keys.create({ userId: 'usr_1', models: ['n'] });
    expect((await failure(clientOf(key).files.retrieve(output.id))).code).to.equal('file_not_found');
    const found = (await client.files.list({ purpose: 'batch_output' })).data.map((file) => file.id);
    expect(found).to.include(output.id);
    await until(() => records.length > 0);
  });

  it('are made as long as the account has what all of them may cost', async () => {
    await gateway.gateway.credits?.topUp({ userId: 'usr_3', credits: 1, reference: 'few' });
    const by = clientOf((await gateway.gateway.keys.create({ userId: 'usr_3' })).key);
    const costly = line({ ...question, max_tokens: 12_000 });
    const made = await Promise.allSettled([batchOf(costly, by), batchOf(costly, by), batchOf(costly, by)]);
    const batches = made.flatMap((one) => (one.status === 'fulfilled' ? [one.value.id] : []));
    expect(batches).to.have.length(1);
    for (const id of batches) end(id, { usage: { ...usage, output_tokens: 0 } });
    await until(() => records.length > 0);
  });

  for (const endpoint of ['/v1/images/generations', '/v1/images/edits'] as const) {
    it(`of ${endpoint} are charged by the images in their output file, at the price of a batch`, async () => {
      const { creditsRemaining: before = 0 } = (await gateway.gateway.credits?.balance('usr_1')) ?? {};
      const picture = {
        model: 'n',
        prompt: 'The Douro',
        n: 2,
        ...(endpoint.endsWith('edits') && { images: [{ image_url: 'data:,' }] }),
      };
      const { id } = await batchOf(`${line(picture, endpoint)}\n${line(picture, endpoint)}`, client, endpoint);
      const answers = [
        {
          response: {
            status_code: 200,
            body: { created: 1, data: [{ b64_json: 'eA==' }, { url: 'https://a.example/1' }] },
          },
        },
        {
          response: {
            status_code: 200,
            body: { data: [{ b64_json: 'eA==' }], usage: { input_tokens: 7, output_tokens: 3 } },
          },
        },
        { response: { status_code: 400, body: { error: { message: 'no' } } } },
      ];
      const output = provider.keep(
        Buffer.from(answers.map((one) => JSON.stringify(one)).join('\n')),
        'out',
        'batch_output',
      );
      end(id, { output_file_id: output.id, endpoint });
      await until(() => records.length > 0);
      expect(records[0]).to.include({
        endpoint: '/batches',
        model: 'n',
        images: 3,
        inputTokens: 7,
        outputTokens: 3,
        estimated: false,
      });
      await until(async () => (await gateway.gateway.credits?.balance('usr_1'))?.creditsRemaining !== before);
      const after = (await gateway.gateway.credits?.balance('usr_1'))?.creditsRemaining ?? 0;
      // three images at 0.2 and ten tokens at 0.001, for half
      expect(Math.round((before - after) * 1_000)).to.equal(305);
    });

    it(`of ${endpoint} need what all their images may cost`, async () => {
      const error = await failure(batchOf(line({ model: 'n', prompt: 'x', n: 1_000 }, endpoint), client, endpoint));
      expect([error.status, error.code]).to.deep.equal([402, 'insufficient_credits']);
    });
  }

  it('that have failed cost nothing', async () => {
    const { id } = await newBatch();
    end(id, { status: 'failed', errors: { data: [{ code: 'invalid' }] } });
    await until(() => records.length > 0);
    expect(records[0]).to.include({ inputTokens: 0, outputTokens: 0, ending: 'upstream_failed' });
  });

  it('give the account the files that an answer or a list names, before it is sent', async () => {
    const { id } = await newBatch();
    const files = ['a', 'b', 'c'].map((text) => provider.keep(Buffer.from(text), text, 'batch_output').id);
    // it runs on, so that nothing but the answer tells
    end(id, { status: 'in_progress', output_file_id: files[0], error_file_id: files[1] });
    await client.batches.retrieve(id);
    for (const file of files.slice(0, 2)) expect((await client.files.retrieve(file)).id).to.equal(file);
    end(id, { status: 'in_progress', output_file_id: files[2] });
    await client.batches.list();
    expect((await client.files.retrieve(files[2] ?? '')).id).to.equal(files[2]);
    end(id, { status: 'cancelled', output_file_id: null, error_file_id: null });
    await until(() => records.length > 0);
  });

  it('are counted once by another process, if the gateway that made them has stopped', async () => {
    const { id } = await newBatch();
    await gateway.close();
    gateway = await start();
    client = clientOf(gateway.key);
    stranger = clientOf((await gateway.gateway.keys.create({ userId: 'usr_2' })).key);
    end(id, { usage });
    await until(() => records.length > 0);
    expect(records).to.have.length(1);
    expect(records[0]).to.include({ inputTokens: 1_000, outputTokens: 500 });
  });

  describe('of a file', () => {
    const uploads = () => provider.seen.filter(({ method, path }) => method === 'POST' && path === '/batches').length;

    async function refused(text: string, endpoint?: OpenAI.BatchCreateParams['endpoint']) {
      const before = uploads();
      const error = await failure(batchOf(text, client, endpoint));
      expect(uploads()).to.equal(before);
      return error;
    }

    it('of another account are not made', async () => {
      const input_file_id = await newFile(line(question), stranger);
      const made = client.batches.create({ input_file_id, endpoint: chat, completion_window: '24h' });
      const error = await failure(made);
      expect([error.code, error.param]).to.deep.equal(['file_not_found', 'input_file_id']);
    });

    it('that the provider keeps no longer are not made', async () => {
      const input_file_id = await newFile(line(question));
      provider.forget(input_file_id);
      const error = await failure(client.batches.create({ input_file_id, endpoint: chat, completion_window: '24h' }));
      expect([error.code, error.param]).to.deep.equal(['file_not_found', 'input_file_id']);
    });

    it('that names something of another account are not made', async () => {
      const file_id = await newFile('secret', stranger);
      const input = [{ role: 'user', content: [{ type: 'input_file', file_id }] }];
      const error = await refused(
        `${line({ model: 'm', input: 'Hi' }, '/v1/responses')}\n${line({ model: 'm', input }, '/v1/responses')}`,
        '/v1/responses',
      );
      expect([error.code, error.param]).to.deep.equal(['file_not_found', 'input_file_id']);
      expect(error.message).to.include('line 2').and.to.include(file_id);
      for (const [field, code] of [
        ['previous_response_id', 'response_not_found'],
        ['conversation', 'conversation_not_found'],
      ] as const) {
        const foreign = await refused(
          line({ model: 'm', input: 'Hi', [field]: 'x_of_nobody' }, '/v1/responses'),
          '/v1/responses',
        );
        expect(foreign.code).to.equal(code);
      }
    });

    for (const [what, text, code, says] of [
      ['with a line break in a request', `{"url":"${chat}","body":{"model":\r"m"}}`, 'invalid_json', 'line break'],
      ['without requests', '\n\n', 'invalid_value', 'with requests'],
      ['with a line that is no JSON', `${line(question)}\n{"custom_id":`, 'invalid_json', 'line 2'],
      ['with another endpoint', line(question, '/v1/files'), 'invalid_value', 'url: must be /v1/chat/completions'],
      ['with a request that names no model', line({ messages: [] }), 'missing_required_parameter', 'body.model'],
      ['with an unknown model', line({ ...question, model: 'x' }), 'model_not_found', "'x'"],
      ['with two models', `${line(question)}\n${line({ ...question, model: 'n' })}`, 'invalid_value', 'must be m'],
      ['with a name that only the gateway knows', line({ ...question, model: 'fast' }), 'invalid_value', 'fast'],
      ['with a field twice', `{"url":"${chat}","body":{"model":"m","model":"n"}}`, 'duplicate_parameter', 'model'],
      [
        'with a field in other case',
        `{"url":"${chat}","body":{"model":"m","Model":"n"}}`,
        'unknown_parameter',
        'Model',
      ],
    ] as const) {
      it(`${what} are not made`, async () => {
        const error = await refused(text);
        expect([error.code, error.param]).to.deep.equal([code, 'input_file_id']);
        expect(error.message).to.include(says);
      });
    }

    it('are not made with fields that nobody has read', async () => {
      const input_file_id = await newFile(line(question));
      const known = { input_file_id, endpoint: chat, completion_window: '24h' } as const;
      const error = await failure(client.batches.create({ ...known, model: 'n' } as never));
      expect([error.code, error.param]).to.deep.equal(['unknown_parameter', 'model']);
      const long = client.batches.create({ ...known, completion_window: '7d' } as never);
      expect((await failure(long)).param).to.equal('completion_window');
    });

    it('that may cost more than the account has are not made', async () => {
      const error = await refused(line({ ...question, max_tokens: 1_000_000 }));
      expect([error.status, error.code]).to.deep.equal([402, 'insufficient_credits']);
      expect(error.message).to.match(/may cost 500\.\d+ credits/);
    });

    it('with a model that the key may not call are not made', async () => {
      const { key } = await gateway.gateway.keys.create({ userId: 'usr_1', models: ['n'] });
      const error = await failure(batchOf(line(question), clientOf(key)));
      expect(error.code).to.equal('model_not_allowed');
    });

    it('of many requests are read line by line', async () => {
      const text = `${line({ model: 'm', input: 'x'.repeat(1_000) }, '/v1/embeddings')}\n`.repeat(5_000);
      await gateway.gateway.credits?.topUp({ userId: 'usr_2', credits: 10_000, reference: 'many' });
      const { id } = await batchOf(text, stranger, '/v1/embeddings');
      end(id, { usage: { ...usage, output_tokens: 0, total_tokens: 1_000 } });
      await until(() => records.length > 0);
      expect(records[0]).to.include({ inputTokens: 1_000, outputTokens: 0 });
    });
  });
});
