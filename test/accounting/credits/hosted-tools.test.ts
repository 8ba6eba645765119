import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import type { ModelGatewayOptions, UsageRecord } from '../../../src/index.ts';
import { SocketUpstream } from '../../sockets/socket-upstream.ts';
import { SocketClient, startSocketGateway } from '../../sockets/support.ts';
import { FileProvider } from '../../stored/file-provider.ts';
import { event, failure, responseOf } from '../../stored/support.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { chunks, events, json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

const credits = {
  prices: { '*': { input: 0 }, 'gpt-image-1': { image: 40 }, mini: { image: 10, batch: 0.5 } },
  toolPrices: { web_search: 1, file_search: 0.25, code_interpreter: 3 },
  initialBalance: 1_000,
} satisfies ModelGatewayOptions['credits'];

const call = (type: string, id: string, fields: object = {}) => ({ id, type, status: 'completed', ...fields });
/** Two searches, a page that was opened, a search of files, code, and an image. */
const output = [
  call('web_search_call', 'ws_1', { action: { type: 'search', query: 'a' } }),
  call('web_search_call', 'ws_2', { action: { type: 'search', query: 'b' } }),
  call('web_search_call', 'ws_3', { action: { type: 'open_page', url: 'https://example.org' } }),
  call('file_search_call', 'fs_1', { queries: [], results: null }),
  call('code_interpreter_call', 'ci_1', { code: '1', container_id: 'cntr_1', outputs: [] }),
  call('image_generation_call', 'ig_1', { result: 'A'.repeat(100_000) }),
  call('image_generation_call', 'ig_2', { status: 'failed', result: null }),
  call('mcp_call', 'mcp_1'),
];
const counted = { webSearchCalls: 2, fileSearchCalls: 1, codeInterpreterCalls: 1, images: 1 };
const toolsCost = 2 * 1 + 0.25 + 3;
const request = { model: 'm', input: 'Hi', store: false } as const;
const imageTool = (model?: string) => ({ type: 'image_generation' as const, ...(model && { model }) });

/** A stream that shows each item as it begins and as it ends, and all of them at its end. */
function streamOf(items: readonly object[]): string[] {
  const shown = items.flatMap((item, index) => [
    event('response.output_item.added', 2 * index + 1, {
      output_index: index,
      item: { ...item, result: null, status: 'in_progress' },
    }),
    event('response.output_item.done', 2 * index + 2, { output_index: index, item }),
  ]);
  const response = responseOf('resp_s', { output: items });
  return [
    event('response.created', 0, { response: { ...response, status: 'in_progress', output: [], usage: null } }),
    ...shown,
    event('response.completed', 99, { response }),
  ].flatMap((text) => [text.slice(0, 70), text.slice(70)]);
}

describe('hosted tools, over HTTP', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let upstream: ScriptedUpstream;
  let gateway: LiveGateway;
  let client: OpenAI;
  let userId: string;
  let accounts = 0;
  const records: UsageRecord[] = [];

  before(async () => {
    database = await freshDatabase();
    upstream = await ScriptedUpstream.start();
    gateway = await startGateway({
      mongo: database.connection,
      upstreams: [
        {
          name: 'up',
          baseUrl: upstream.baseUrl,
          models: ['m', 'gpt-*', 'mini', 'search-*'],
          aliases: { paint: 'gpt-image-1' },
        },
      ],
      credits: { ...credits, prices: { ...credits.prices, paint: { image: 70 } } },
      background: { pollInterval: 20 },
      onUsage: (record) => void records.push(record),
    });
  });
  const clientOf = async (options: object = {}) => {
    const { key } = await gateway.gateway.keys.create({ userId, ...options });
    return new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  };
  beforeEach(async () => {
    accounts += 1;
    userId = `usr_tools_${accounts}`;
    client = await clientOf();
    records.length = 0;
  });
  after(async () => {
    await upstream.close();
    await gateway.close();
    await database.drop();
  });

  const balance = async () => (await gateway.gateway.credits?.balance(userId))?.creditsRemaining ?? 0;
  const costs = (cost: number) => until(async () => Math.abs(1_000 - cost - (await balance())) < 1e-6);

  it('are counted in a response, and charged by their prices', async () => {
    upstream.script = json(200, responseOf('resp_1', { output }));
    await client.responses.create({ ...request, tools: [imageTool()] });
    await until(() => records.length === 1);
    expect(records[0]).to.include({ ...counted, inputTokens: 30, estimated: false });
    expect(records[0]?.imageModels).to.deep.equal(['gpt-image-1']);
    await costs(toolsCost + 40);
    const lines = async () => (await gateway.gateway.usage?.report(userId, {}))?.lines;
    await until(async () => (await lines())?.[0]?.requests === 1);
    expect((await lines())?.[0]).to.include({ ...counted, requests: 1 });
  });

  it('are shown in the usage of the account', async () => {
    const { key } = await gateway.gateway.keys.create({ userId });
    const authorized = { headers: { authorization: `Bearer ${key}` } };
    upstream.script = json(200, responseOf('resp_1', { output }));
    await client.responses.create(request);
    const usage = async () =>
      ((await (await fetch(`${gateway.url}/v1/usage`, authorized)).json()) as { data: object[] }).data;
    await until(async () => (await usage()).length === 1);
    const shown = { web_search_calls: 2, file_search_calls: 1, code_interpreter_calls: 1, images: 1 };
    expect((await usage())[0]).to.include(shown);
  });

  for (const [what, store] of [
    ['is not kept', false],
    ['is kept', true],
  ] as const) {
    it(`are counted once in a stream of a response that ${what}`, async () => {
      upstream.script = chunks(streamOf(output));
      const stream = await client.responses.create({ ...request, store, stream: true, tools: [imageTool('mini')] });
      for await (const _ of stream);
      await until(() => records.length === 1);
      expect(records[0]).to.include(counted);
      await costs(toolsCost + 10);
    });
  }

  it('are counted where a response that is kept is answered in one piece', async () => {
    upstream.script = json(200, responseOf(`resp_kept_${accounts}`, { output }));
    await client.responses.create({ ...request, store: true });
    await costs(toolsCost + 40);
  });

  it('are counted in a response that is made in the background, when it has ended', async () => {
    const id = `resp_bg_${accounts}`;
    const script: Script = (res, got) =>
      json(
        200,
        got.method === 'POST'
          ? responseOf(id, { status: 'queued', output: [], usage: null })
          : responseOf(id, { output }),
      )(res, got);
    upstream.script = script;
    await client.responses.create({ model: 'm', input: 'Hi', background: true, tools: [imageTool('mini')] });
    await costs(toolsCost + 10);
    await until(() => records.length === 1);
    expect(records[0]).to.include(counted);
    expect(records[0]?.imageModels).to.deep.equal(['mini']);
  });

  it('have models that are checked against those of the key, wherever they are named', async () => {
    const limited = await clientOf({ models: ['m'] });
    const before = upstream.requests.length;
    const model = 'gpt-image-1';
    const bodies = [
      { tools: [imageTool(model)] },
      { tools: [imageTool()] },
      { tools: [{ type: 'image_generation', model: 'm' }, imageTool()] },
      { tools: [{ type: 'other_generation', model }] },
      { tools: [{ type: 'namespace', tools: [imageTool(model)] }] },
      { tools: [{ type: 'image_generation', Model: model }] },
      { tools: [], input: [{ type: 'tool_search_output', tools: [imageTool(model)] }] },
      { input: [{ type: 'additional_tools', tools: [imageTool(model)] }] },
      // readers that fold case take each of these for `tools`
      { input: [{ type: 'additional_tools', Tools: [imageTool(model)] }] },
      { input: [{ type: 'additional_tools', tOOLS: [imageTool(model)] }] },
      { input: [{ type: 'additional_tools', toolſ: [imageTool(model)] }] },
    ];
    const texts = [
      ...bodies.map((body) => JSON.stringify({ ...request, ...body })),
      `{"model":"m","input":"Hi","tools":[{"type":"image_generation","model":"m","model":"${model}"}]}`,
      `{"model":"m","input":"Hi","tools":[{"type":"image_generation","model":"${model}","model":"m"}]}`,
      `{"model":"m","input":"Hi","tools":[{"\\u0074ype":"image_generation","m\\u006fdel":"${model}"}]}`,
      `{"model":"m","input":[{"\\u0074ools":[{"type":"image_generation","model":"${model}"}]}]}`,
    ];
    for (const path of ['responses', 'responses/compact', 'responses/input_tokens']) {
      for (const body of texts) {
        const response = await fetch(`${gateway.url}/v1/${path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${limited.apiKey}`, 'content-type': 'application/json' },
          body,
        });
        const { error } = (await response.json()) as { error: { code: string } };
        expect([response.status, error?.code], body).to.deep.equal([403, 'model_not_allowed']);
      }
    }
    expect(upstream.requests).to.have.length(before);
    upstream.script = json(200, responseOf('resp_1'));
    const schema = { type: 'object', properties: { model: { enum: [model] } }, model };
    const tools = [{ type: 'function' as const, name: 'f', strict: false, parameters: schema }, imageTool('m')];
    await limited.responses.create({ ...request, tools });
  });

  it('cannot have a fine-tuned model of another account', async () => {
    const refused = client.responses.create({ ...request, tools: [imageTool('ft:gpt-image-1:other::1')] });
    expect((await failure(refused)).code).to.equal('model_not_found');
  });

  it("get their upstream's name for a model, and cost what the caller's name costs", async () => {
    upstream.script = json(200, responseOf('resp_1', { output }));
    const tools = [{ type: 'web_search' as const }, imageTool('paint')];
    await client.responses.create({ ...request, tools });
    expect(JSON.parse(upstream.last.body.toString()).tools).to.deep.equal([tools[0], imageTool('gpt-image-1')]);
    await costs(toolsCost + 70);
  });

  it('of a failed response cost nothing', async () => {
    upstream.script = json(
      200,
      responseOf('resp_1', { output, status: 'failed', error: { code: 'server_error', message: 'x' } }),
    );
    await client.responses.create(request).catch(() => undefined);
    upstream.script = json(200, responseOf('resp_2', { output: [output[0] as object] }));
    await client.responses.create(request);
    await costs(1);
  });

  it('that search the web for a chat are counted where the answer tells', async () => {
    const annotations = [{ type: 'url_citation', url_citation: { url: 'https://example.org' } }];
    const answer = (message: object, usage: object = {}) =>
      json(200, {
        choices: [{ index: 0, message: { role: 'assistant', content: 'a', ...message }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, ...usage },
      });
    const chat = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] };
    upstream.script = answer({ annotations });
    await client.chat.completions.create({ ...chat, web_search_options: {} });
    await costs(1);
    await client.chat.completions.create({ ...chat, model: 'gpt-4o-search-preview' });
    await costs(2);
    upstream.script = answer({ content: '"url_citation"' });
    await client.chat.completions.create({ ...chat, web_search_options: {} });
    upstream.script = answer({}, { server_tool_use: { web_search_requests: 3 } });
    await client.chat.completions.create(chat);
    await costs(5);
    const delta = { content: 'a', annotations };
    upstream.script = events([{ choices: [{ index: 0, delta, finish_reason: 'stop' }] }]);
    for await (const _ of await client.chat.completions.create({ ...chat, web_search_options: {}, stream: true }));
    await costs(6);
  });
});

describe('hosted tools that a call may use', () => {
  const tools = [{ type: 'web_search' as const }];
  const code = { type: 'code_interpreter' as const, container: { type: 'auto' as const } };
  for (const [what, body] of [
    ['a call of each', { tools: [...tools, code, imageTool('mini')] }],
    ['as many calls as the request allows', { tools, max_tool_calls: 14 }],
    ['an image of the model that makes them where the tool names none', { tools: [imageTool()] }],
  ] as const) {
    it(`are reserved while it is under way: ${what}`, async () => {
      const upstream = await ScriptedUpstream.start();
      const { prices, toolPrices } = credits;
      const gateway = await startGateway({
        upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
        credits: {
          prices: { ...prices, 'gpt-image-1': { image: 14 } },
          toolPrices,
          initialBalance: 14,
        },
      });
      const client = new OpenAI({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
      let answer = () => {};
      upstream.script = (res, got) => {
        answer = () => void json(200, responseOf('resp_1'))(res, got);
      };
      try {
        const first = client.responses.create({ ...request, ...(body as object) });
        await upstream.received(1);
        expect((await failure(client.responses.create({ ...request, tools }))).status).to.be.oneOf([402, 429]);
        expect(upstream.requests).to.have.length(1);
        answer();
        await first;
        upstream.script = json(200, responseOf('resp_2'));
        // none of them was used
        await client.responses.create({ ...request, tools });
      } finally {
        await upstream.close();
        await gateway.close();
      }
    });
  }
});

describe('hosted tools in a batch', () => {
  let provider: FileProvider;
  let gateway: LiveGateway;
  let client: OpenAI;
  const records: UsageRecord[] = [];

  before(async () => {
    provider = await FileProvider.start();
    gateway = await startGateway({
      upstreams: [
        { name: 'one', baseUrl: provider.baseUrl, models: ['m', 'mini', 'gpt-*'], aliases: { paint: 'mini' } },
      ],
      background: { pollInterval: 20 },
      credits,
      onUsage: (record) => {
        if (!record.stored) records.push(record);
      },
    });
    client = new OpenAI({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  });
  after(async () => {
    await gateway.close();
    await provider.close();
  });

  async function newBatch(bodies: readonly object[], by = client) {
    const lines = bodies.map((body) => JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/responses', body }));
    const file = await by.files.create({
      file: await toFile(Buffer.from(lines.join('\n')), 'a.jsonl'),
      purpose: 'batch',
    });
    return by.batches.create({ input_file_id: file.id, endpoint: '/v1/responses', completion_window: '24h' });
  }

  it('are counted in its answers, also where it says its usage itself', async () => {
    const tools = [{ type: 'web_search' }, imageTool('mini')];
    const { id } = await newBatch([{ ...request, tools }, request]);
    const answers = [output, [output[0]]].map((items) => ({
      response: { status_code: 200, body: responseOf('r', { output: items }) },
    }));
    const file = provider.keep(
      Buffer.from(answers.map((one) => JSON.stringify(one)).join('\n')),
      'out',
      'batch_output',
    );
    const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
    provider.batches.set(id, { ...provider.batches.get(id), status: 'completed', usage, output_file_id: file.id });
    await until(() => records.length === 1);
    expect(records[0]).to.include({
      ...counted,
      webSearchCalls: 3,
      inputTokens: 10,
      outputTokens: 5,
      estimated: false,
    });
    expect(records[0]?.imageModels).to.deep.equal(['mini']);
    const left = async () => (await gateway.gateway.credits?.balance('usr_1'))?.creditsRemaining ?? 0;
    // images cost their part of a batch, and calls of tools what they cost elsewhere
    await until(async () => Math.abs(1_000 - (toolsCost + 1 + 5) - (await left())) < 1e-6);
  });

  it('have models that are checked', async () => {
    const { key } = await gateway.gateway.keys.create({
      userId: 'usr_1',
      models: ['m'],
    });
    const limited = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    const refusals = [
      [limited, imageTool('mini'), 'model_not_allowed'],
      [limited, imageTool(), 'model_not_allowed'],
      [client, imageTool('ft:mini:other::1'), 'model_not_found'],
      [client, imageTool('paint'), 'invalid_value'],
    ] as const;
    for (const [by, tool, code] of refusals) {
      expect((await failure(newBatch([{ ...request, tools: [tool] }], by))).code).to.equal(code);
    }
  });

  it('must be paid for by what its account has', async () => {
    const bodies = Array.from({ length: 30 }, () => ({ ...request, tools: [imageTool()] }));
    expect((await failure(newBatch(bodies))).code).to.equal('insufficient_credits');
  });
});

describe('hosted tools, over a WebSocket of responses', () => {
  let upstream: SocketUpstream;
  let gateway: Awaited<ReturnType<typeof startSocketGateway>>;

  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({
      upstreams: [
        { name: 'up', baseUrl: upstream.baseUrl, models: ['m', 'gpt-*', 'mini'], aliases: { paint: 'gpt-image-1' } },
      ],
      credits,
    });
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  it('are counted once, and charged by their prices', async () => {
    upstream.onEvent = ({ type }, socket) => {
      if (type !== 'response.create') return;
      for (const text of streamOf(output).join('').split('\n\n').filter(Boolean)) {
        socket.send(text.slice(text.indexOf('data: ') + 'data: '.length));
      }
    };
    const client = await SocketClient.open(`${gateway.url}/responses`, gateway.key);
    client.send({ type: 'response.create', ...request, tools: [imageTool('paint'), imageTool('mini')] });
    const [record] = await gateway.charged(1);
    expect(record).to.include(counted);
    expect(record?.imageModels).to.deep.equal(['paint', 'mini']);
    expect(upstream.events[0].tools).to.deep.equal([imageTool('gpt-image-1'), imageTool('mini')]);
    const left = async () => (await gateway.gateway.credits?.balance('usr_1'))?.creditsRemaining ?? 0;
    // that of the dearest model that may have made it: 'paint' has no price
    await until(async () => Math.abs(1_000 - (toolsCost + 10) - (await left())) < 1e-6);
    client.socket.close();
    await client.whenClosed();
  });

  it('have models that are checked', async () => {
    upstream.reset();
    const limited = await SocketClient.open(`${gateway.url}/responses`, await gateway.newKey({ models: ['m'] }));
    const all = await SocketClient.open(`${gateway.url}/responses`, gateway.key);
    limited.send({ type: 'response.create', ...request, tools: [imageTool()] });
    expect((await limited.event('error')).error.code).to.equal('model_not_allowed');
    limited.send({
      type: 'response.create',
      ...request,
      input: [{ type: 'additional_tools', tools: [imageTool('mini')] }],
    });
    expect((await limited.event('error', 2)).error.code).to.equal('model_not_allowed');
    all.send({ type: 'response.create', ...request, tools: [imageTool('ft:mini:other::1')] });
    expect((await all.event('error')).error.code).to.equal('model_not_found');
    expect(upstream.received).to.deep.equal([]);
    for (const { socket } of [limited, all]) socket.close();
    await Promise.all([limited.whenClosed(), all.whenClosed()]);
  });
});
