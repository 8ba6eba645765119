import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { CORE_SCHEMA, load } from 'js-yaml';
import { GatewayError, type ModelGatewayOptions, type UsageRecord } from '../../../src/index.ts';
import { connectRaw, head } from '../../http/raw-client.ts';
import { whileClockStands } from '../../support/clock.ts';
import { createGateway, type LiveGateway, startGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { gatewayDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { chunks, json, reset, type Script, ScriptedUpstream } from '../../support/upstream.ts';

const long = 'a text that is longer than what is kept of the strings of other bodies, which is 64 bytes';
const object = { type: 'object' } as const;
const endpoints: NonNullable<ModelGatewayOptions['endpoints']> = [
  {
    path: '/v1/classify',
    schema: {
      ...object,
      description: 'Sorts texts.',
      required: ['texts'],
      properties: {
        texts: { type: 'array', uniqueItems: true, items: { type: 'string', minLength: 70 } },
        labels: { type: 'object', minProperties: 1 },
      },
    },
    model: '/parameters/model',
    units: '/meta/billed_units/classifications',
    expectedUnits: 4,
  },
  { path: '/v1/scenes', schema: object },
  // with characters that readers of YAML refuse as they are
  { path: '/v1/write', schema: { ...object, description: 'Writes.\u0080\u2028\uffff' } },
  { path: '/v1/videos', schema: object },
  { path: '/v1/images/upscale', schema: object },
  { path: '/v1/tell', schema: object, speaks: 'anthropic' },
];
const ask = { texts: [`1 ${long}`, `2 ${long}`], labels: { any: 1 }, parameters: { model: 'sorter' }, seed: 1 };
const classes = [{ class: 'a' }];
const billed = (classifications: unknown) => ({ classes, meta: { billed_units: { classifications } } });

interface Failure {
  readonly error: { readonly param: string | null; readonly code: string; readonly message: string };
}

describe('endpoints of a host', () => {
  let upstream: ScriptedUpstream;
  let live: LiveGateway;
  let accounts = 0;
  let key: string;
  let userId: string;
  const records: UsageRecord[] = [];

  before(async () => {
    upstream = await ScriptedUpstream.start();
    live = await startGateway({
      upstreams: [
        { name: 'up', baseUrl: upstream.baseUrl, aliases: { quick: 'vendor/sorter' } },
        { name: 'claude', baseUrl: upstream.baseUrl, speaks: ['anthropic'], models: ['claude-*'] },
      ],
      endpoints,
      // in micro-credits, a token of input costs 1 and one of output 1,000
      credits: {
        prices: {
          '*': { input: 1, output: 1_000 },
          sorter: { unit: 0.5, input: 1 },
          quick: { unit: 0.5 },
          enlarger: { unit: 0.5, image: 20 },
          judge: { input: 100_000, output: 100_000 },
        },
        initialBalance: 10,
      },
      limits: { perKey: { requestsPerMinute: 3 } },
      onUsage: (record) => void records.push(record),
    });
  });
  beforeEach(async () => {
    accounts += 1;
    userId = `usr_own_${accounts}`;
    ({ key } = await live.gateway.keys.create({ userId }));
    records.length = 0;
    upstream.requests.length = 0;
  });
  after(async () => {
    await live.close();
    await upstream.close();
  });

  async function call(path: string, body?: object, { method = 'POST', as = key } = {}) {
    const headers = { authorization: `Bearer ${as}`, 'content-type': 'application/json' };
    const response = await fetch(`${live.url}/v1${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      ...{ status: response.status, headers: response.headers, text },
      // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
      json: (text.startsWith('{') ? JSON.parse(text) : {}) as any,
    };
  }
  async function recorded(): Promise<UsageRecord> {
    await until(() => records.length > 0);
    return records[0] as UsageRecord;
  }
  async function creditsUsed(): Promise<number> {
    let left = 10;
    await until(async () => (await call('/usage', undefined, { method: 'GET' })).json.data[0]?.requests === 1);
    left = (await call('/credits', undefined, { method: 'GET' })).json.credits_remaining;
    return Math.round((10 - left) * 1e6);
  }

  it('are relayed as they come, with the name of the model where it stands', async () => {
    upstream.script = json(200, billed(1));
    const { json: answer } = await call('/classify', { ...ask, parameters: { model: 'quick', x: 1 } });
    expect(answer).to.deep.equal(billed(1));
    expect(upstream.last.path).to.equal('/v1/classify');
    expect(JSON.parse(upstream.last.body.toString())).to.deep.equal({
      ...ask,
      parameters: { model: 'vendor/sorter', x: 1 },
    });
    expect(await recorded()).to.include({ endpoint: '/classify', model: 'quick', upstream: 'up', units: 1 });
  });

  it('are charged by the units of the answer, which usage shows', async () => {
    upstream.script = json(200, { ...billed('2.5'), usage: { prompt_tokens: 100, completion_tokens: 0 } });
    await call('/classify', ask);
    expect(await recorded()).to.include({ units: 2.5, inputTokens: 100, estimated: false });
    expect(await creditsUsed()).to.equal(1_250_000);
    expect((await call('/usage', undefined, { method: 'GET' })).json.data[0]).to.include({ requests: 1, units: 2.5 });
  });

  for (const wrong of [undefined, -1, 'many', '1e3', 1e9, 1e308, null, true, [1], { 0: 1 }]) {
    it(`are charged by the units to expect where the answer has ${JSON.stringify(wrong)}`, async () => {
      upstream.script = json(200, billed(wrong));
      await call('/classify', ask);
      expect(await recorded()).to.include({ units: 4, estimated: true });
      expect(await creditsUsed()).to.equal(2_000_000);
    });
  }

  it('are charged by the call where no units are named', async () => {
    upstream.script = json(200, { scene: 1, usage: { prompt_tokens: 5, completion_tokens: 2 } });
    await call('/scenes', { model: 'sorter' });
    expect(await recorded()).to.include({ units: 1, inputTokens: 5, estimated: false });
    expect(await creditsUsed()).to.equal(500_000);
  });

  it('are charged by tokens where their model has no price for a unit', async () => {
    upstream.script = json(200, { scene: 1, usage: { prompt_tokens: 5, completion_tokens: 2 } });
    await call('/scenes', { model: 'm' });
    expect(await creditsUsed()).to.equal(2_005);
  });

  it('are charged by an estimate of the input where nothing is reported', async () => {
    upstream.script = json(200, { scene: long });
    const body = { model: 'm', scene: long };
    await call('/scenes', body);
    const inputTokens = Math.ceil(JSON.stringify(body).length / 4);
    expect(await recorded()).to.include({ inputTokens, outputTokens: 0, units: 1, estimated: true });
    expect(await creditsUsed()).to.equal(inputTokens);
  });

  const answers: [what: string, script: Script, status: number, units: number][] = [
    ['is compressed', json(200, gzipSync(JSON.stringify(billed(3))), { 'content-encoding': 'gzip' }), 200, 3],
    ['is a list', json(200, [[0.5]]), 200, 4],
    ['has an empty list', json(200, { classes: [] }), 200, 4],
    ['has a detail beside its result', json(200, { detail: 'all', classes }), 200, 4],
  ];
  for (const [what, script, status, units] of answers) {
    it(`are counted where the answer ${what}`, async () => {
      upstream.script = script;
      expect((await call('/classify', ask)).status).to.equal(status);
      expect(await recorded()).to.include({ units, ending: 'complete' });
    });
  }

  const nothing: [what: string, script: Script][] = [
    ['is cut off', reset(JSON.stringify(billed(3)).slice(0, -2), { 'content-type': 'application/json' })],
    ['is no JSON', json(200, Buffer.from('<p>Hello</p>'), { 'content-type': 'text/html' })],
    ['has nothing in it', json(200, {})],
    ['has only the detail of an error', json(200, { detail: 'Not Found' })],
  ];
  for (const [what, script] of nothing) {
    it(`fail, and cost nothing, where the answer ${what}`, async () => {
      upstream.script = script;
      expect((await call('/classify', ask)).status).to.equal(502);
      expect(records).to.have.length(0);
    });
  }

  it('are refused where what they may cost is not left', async () => {
    const written = await call('/write', { model: 'm', max_tokens: 20_000 });
    expect([written.status, written.json.error.param]).to.deep.equal([402, 'max_tokens']);
    expect(upstream.requests).to.have.length(0);
    upstream.script = json(200, billed(20));
    await call('/classify', ask);
    expect(await creditsUsed()).to.equal(10_000_000);
    upstream.requests.length = 0;
    const { status, json: body } = await call('/classify', ask);
    expect([status, body.error.code]).to.deep.equal([402, 'insufficient_credits']);
    expect(upstream.requests).to.have.length(0);
  });

  it('need credits for their units alone, whatever their path begins with', async () => {
    upstream.script = json(200, { image: 'x' });
    expect((await call('/images/upscale', { model: 'enlarger' })).status).to.equal(200);
    expect(await creditsUsed()).to.equal(500_000);
  });

  it('need no credits for the output of a rerank, which has none', async () => {
    upstream.script = json(200, { results: [{ index: 0, relevance_score: 1 }] });
    const rerank = (document: string) => call('/rerank', { model: 'judge', query: 'a', documents: [document] });
    expect((await rerank('b')).status).to.equal(200);
    const { status, json: answer } = await rerank(long.repeat(10));
    expect([status, answer.error.param]).to.deep.equal([402, 'documents']);
  });

  it('count into the limits of a key', () =>
    whileClockStands(async () => {
      upstream.script = json(200, billed(1));
      for (let i = 0; i < 3; i += 1) expect((await call('/classify', ask)).status).to.equal(200);
      const { status, headers } = await call('/classify', ask);
      expect([status, headers.get('x-ratelimit-remaining-requests')]).to.deep.equal([429, '0']);
    }));

  it('count into the budget of a key', async () => {
    upstream.script = json(200, billed(1));
    for (const credits of [1, 0.000_001]) {
      const budgeted = await live.gateway.keys.create({ userId, budgets: [{ period: 'day', credits }] });
      const { status } = await call('/classify', ask, { as: budgeted.key });
      expect(status).to.equal(429);
    }
    expect(upstream.requests).to.have.length(0);
  });

  it('refuse a body that is too long to be checked, and say how long one may be', async () => {
    const { status, json: answer } = await call('/scenes', { model: 'm', scene: 'x'.repeat(8_400_000) });
    expect([status, answer.error.code]).to.deep.equal([413, 'request_too_large']);
    expect(answer.error.message).to.include('at most 8388608 bytes');
    expect(upstream.requests).to.have.length(0);
  });

  it('are called without a model, too, where their schema does not ask for one', async () => {
    upstream.script = json(200, { scene: 1 });
    expect((await call('/scenes', {})).status).to.equal(200);
    expect(await recorded()).to.include({ model: null, units: 1 });
  });

  it('take the models that a key may call', async () => {
    const limited = await live.gateway.keys.create({ userId, models: ['other'] });
    for (const body of [ask, { texts: ask.texts }, { ...ask, model: 'other' }]) {
      const { status, json: answer } = await call('/classify', body, { as: limited.key });
      expect([status, answer.error.code]).to.deep.equal([403, 'model_not_allowed']);
    }
  });

  const invalid: [what: string, body: object, param: string][] = [
    ['a member that is missing', { parameters: { model: 'sorter' } }, 'texts'],
    ['a text that is too short', { ...ask, texts: ['short'] }, 'texts[0]'],
    ['the same long text twice', { ...ask, texts: [long, long] }, 'texts[1]'],
    ['an object without a member', { ...ask, labels: {} }, 'labels'],
    ['a model that is no text', { ...ask, parameters: { model: 5 } }, 'parameters.model'],
    ['a model in other case', { ...ask, parameters: { model: 'sorter', Model: 'other' } }, 'Model'],
    ['a limit that is no number', { ...ask, max_tokens: 'all' }, 'max_tokens'],
  ];
  for (const [what, body, param] of invalid) {
    it(`refuse by their schema: ${what}`, async () => {
      const { status, json: answer } = await call('/classify', body);
      expect([status, answer.error.param]).to.deep.equal([400, param]);
      expect(upstream.requests).to.have.length(0);
    });
  }

  it('refuse a body that says twice what is read of it, described or not', async () => {
    const body = '{"model":"m","max_tokens":1,"max_tokens":9}';
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const response = await fetch(`${live.url}/v1/write`, { method: 'POST', headers, body });
    expect([response.status, ((await response.json()) as Failure).error.param]).to.deep.equal([400, 'max_tokens']);
  });

  it('take POST alone', async () => {
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
      const { status, headers } = await call('/classify', undefined, { method });
      expect([status, headers.get('allow')]).to.deep.equal([405, 'POST']);
    }
  });

  it('serve what OpenAI does no more, which the answer for a path below does not say then', async () => {
    upstream.script = json(200, { id: 'video_1' });
    expect((await call('/videos', { model: 'm' })).status).to.equal(200);
    const alone = await listen(live.gateway.router);
    const response = await fetch(`${alone.url}/v1/videos/video_1`);
    const { error } = (await response.json()) as Failure;
    await alone.close();
    expect([response.status, error.code]).to.deep.equal([404, 'endpoint_not_served']);
    expect(error.message).to.include('/v1/videos').and.not.include('shut');
  });

  it('are served at their path alone', async () => {
    upstream.script = json(200, { scene: 1 });
    const own = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    async function statusOf(path: string): Promise<string | undefined> {
      const client = connectRaw(Number(new URL(live.url).port));
      client.write(head('POST', path, { ...own, 'content-length': '2', connection: 'close' }), '{}');
      return /^HTTP\/1.1 (\d+)/.exec(await client.ended())?.[1];
    }
    for (const path of ['/v1/scenes', '/v1/scenes/', '/v1/scenes?a=%20']) {
      expect(await statusOf(path), path).to.equal('200');
      expect(upstream.last.path).to.equal(path.replace(/\/$/, ''));
    }
    const others = [
      '/v1/Scenes',
      '/v1//scenes',
      '/v1/scene%73',
      '/v1/scenes%2f',
      '/v1/scenes%',
      '/v1/x/../scenes',
      '/v1/scenes/1',
    ];
    for (const path of others) expect(await statusOf(path), path).to.equal('404');
  });

  it('stream, and are counted by the last report', async () => {
    const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
    const parts = [
      event({ delta: 'a', usage: { prompt_tokens: 3, completion_tokens: 1 } }),
      event({ delta: 'b', usage: { prompt_tokens: 3, completion_tokens: 2 } }),
      'data: [DONE]\n\n',
    ];
    upstream.script = chunks(parts);
    const { text } = await call('/write', { model: 'm', stream: true });
    expect(text).to.equal(parts.join(''));
    expect(upstream.last.body.toString()).to.equal('{"model":"m","stream":true}');
    expect(await recorded()).to.include({ inputTokens: 3, outputTokens: 2, estimated: false, ending: 'complete' });
  });

  it('stream units, of which the largest number counts', async () => {
    const parts = [2, 3, 1].map((units) => `data: ${JSON.stringify(billed(units))}\n\n`);
    upstream.script = chunks(parts);
    const { text } = await call('/classify', { ...ask, stream: true });
    expect(text).to.equal(parts.join(''));
    expect(await recorded()).to.include({ units: 3, ending: 'complete' });
  });

  it('cost nothing where a stream ends in an error, however long it took', async () => {
    const parts = [`data: ${JSON.stringify(billed(3))}\n\n`, 'data: {"error":{"message":"no"}}\n\n'];
    upstream.script = chunks(parts, {}, 200);
    await call('/classify', { ...ask, stream: true });
    expect(await recorded()).to.include({ ending: 'upstream_failed', units: 0 });
    upstream.script = json(200, billed(1));
    await call('/classify', ask);
    expect(await creditsUsed()).to.equal(500_000);
  });

  it('are free where the answer counts no units', async () => {
    upstream.script = json(200, billed(0));
    await call('/classify', ask);
    expect(await recorded()).to.include({ units: 0, ending: 'complete' });
    expect(await creditsUsed()).to.equal(0);
  });

  it('end a stream that breaks off in an error, and are counted by an estimate', async () => {
    upstream.script = reset('data: {"delta":"some text that has come"}\n\n', { 'content-type': 'text/event-stream' });
    const { text } = await call('/write', { model: 'm', stream: true });
    expect(text).to.match(/some text[\s\S]*data: \{"error":.*upstream/);
    const record = await recorded();
    expect(record).to.include({ ending: 'upstream_failed', estimated: true });
    expect(record.outputTokens).to.be.above(3);
  });

  it('go to upstreams that speak their API, and say errors as it does', async () => {
    const usage = { input_tokens: 3, output_tokens: 2 };
    upstream.script = json(200, { content: 'x', usage });
    await call('/tell', { model: 'claude-1' });
    expect(await recorded()).to.include({ upstream: 'claude', inputTokens: 3, outputTokens: 2 });
    const { status, json: answer } = await call('/tell', { model: 'other' });
    expect([status, answer.type, answer.error.type]).to.deep.equal([404, 'error', 'not_found_error']);
  });

  it("pass the upstream's errors on, at no cost", async () => {
    upstream.script = json(422, { error: { message: 'no', code: 'odd' } });
    expect(await call('/scenes', { model: 'sorter' })).to.deep.include({
      status: 422,
      json: { error: { message: 'no', code: 'odd' } },
    });
    upstream.script = json(200, { error: { message: 'no' } });
    expect((await call('/classify', ask)).json).to.deep.equal({ error: { message: 'no' } });
    await until(() => records.length > 0);
    expect(records).to.have.length(1);
    expect(records[0]).to.include({ endpoint: '/classify', ending: 'upstream_failed', units: 0, inputTokens: 0 });
  });

  it('are in openapi.json and openapi.yaml', async () => {
    const { json: document } = await call('/openapi.json', undefined, { method: 'GET' });
    const { post } = document.paths['/v1/classify'];
    expect(post).to.include({ operationId: 'postClassify', description: 'Sorts texts.' });
    const { schema } = post.requestBody.content['application/json'];
    expect(schema.properties.parameters.properties.model).to.include({ type: 'string', maxLength: 256 });
    expect(document.paths['/v1/write'].post.responses['200'].content).to.have.keys(
      'application/json',
      'text/event-stream',
    );
    const { text } = await call('/openapi.yaml', undefined, { method: 'GET' });
    expect(load(text, { schema: CORE_SCHEMA })).to.deep.equal(document);
  });
});

describe('endpoints of two gateways in one process', () => {
  it('are those of each alone, and called only where an upstream speaks their API', async () => {
    const upstream = await ScriptedUpstream.start();
    const upstreams = [{ name: 'up', baseUrl: upstream.baseUrl }];
    const [one, other] = await Promise.all([
      startGateway({ upstreams, endpoints: [{ path: '/v1/sort', schema: object }] }),
      startGateway({ upstreams, endpoints: [{ path: '/v1/tell', schema: object, speaks: 'anthropic' }] }),
    ]);
    try {
      upstream.script = json(200, { sorted: 1 });
      expect((await one.call('POST', '/v1/sort', { model: 'm' })).status).to.equal(200);
      const { status, body } = await other.call('POST', '/v1/tell', { model: 'm' });
      expect([status, body.type, body.error.code]).to.deep.equal([404, 'error', 'model_not_found']);
      for (const [live, path, elsewhere] of [
        [one, '/v1/sort', '/v1/tell'],
        [other, '/v1/tell', '/v1/sort'],
      ] as const) {
        const { paths } = (await live.call('GET', '/v1/openapi.json')).body;
        expect(paths).to.include.keys(path, '/v1/rerank').and.not.have.property(elsewhere);
        expect((await fetch(live.url + elsewhere, { method: 'POST' })).status).to.equal(404);
      }
      expect(upstream.requests).to.have.length(1);
    } finally {
      await Promise.all([one.close(), other.close()]);
      await upstream.close();
    }
  });
});

describe('the option endpoints', () => {
  let database: Awaited<ReturnType<typeof gatewayDatabase>>;
  before(async () => {
    database = await gatewayDatabase();
  });
  after(() => database.giveBack(true));

  const row = { path: '/v1/classify', schema: object };
  const tree = { type: 'object', properties: {} };
  tree.properties = { child: tree };
  const refused: [param: string, endpoints: unknown, says: RegExp][] = [
    ['endpoints', row, /must be a list/],
    ['endpoints[0].path', [{ schema: object }], /must be a path below \/v1/],
    ['endpoints[0].path', [{ ...row, path: ['/v1/x'] }], /must be a path below \/v1/],
    ['endpoints[0].path', [{ ...row, path: '/v1/x%2f' }], /must be a path below \/v1/],
    ['endpoints[0].path', [{ ...row, path: '/v1/x/' }], /must be a path below \/v1/],
    ['endpoints[0].path', [{ ...row, path: '/rerank' }], /must be a path below \/v1/],
    ['endpoints[0].path', [{ ...row, path: '/v1/../admin' }], /must be a path below \/v1/],
    ['endpoints[0].path', [{ ...row, path: '/v1/x/{id}' }], /must be a path below \/v1/],
    ['endpoints[0].path', [{ ...row, path: '/v1/rerank' }], /not served already; there is \/v1\/rerank/],
    ['endpoints[0].path', [{ ...row, path: '/v1/files/mine' }], /there is \/v1\/files\/\{file_id\}/],
    ['endpoints[0].path', [{ ...row, path: '/v1/openapi.json' }], /not served already/],
    ['endpoints[1].path', [row, row], /there is \/v1\/classify/],
    [
      'endpoints[1].path',
      [
        { ...row, path: '/v1/a-b' },
        { ...row, path: '/v1/a/b' },
      ],
      /must differ from \/v1\/a-b/,
    ],
    ['endpoints[0].schema', [{ path: '/v1/x' }], /type: 'object'/],
    ['endpoints[0].schema', [{ ...row, schema: { type: 'object', required: 'a' } }], /is not a valid JSON schema/],
    ['endpoints[0].schema', [{ ...row, schema: { type: 'object', required: 'a' } }], /schema\/required must be array/],
    ['endpoints[0].schema', [{ ...row, schema: { type: 'object', $id: 'x' } }], /\$id: leave it out/],
    ['endpoints[0].schema', [{ ...row, schema: tree }], /nothing that contains itself/],
    ['endpoints[0].schema', [{ ...row, schema: { type: 'object', maxProperties: 9n } }], /no bigint/],
    ['endpoints[0].schema', [{ ...row, schema: { type: 'object', properties: { a: { $ref: '#/x' } } } }], /\$ref/],
    ['endpoints[0].schema', [{ ...row, schema: { type: 'object', $async: true } }], /is not a valid JSON schema/],
    ['endpoints[0].schema', [{ ...row, schema: { type: 'object', $dynamicRef: '#/x' } }], /\$dynamicRef/],
    [
      'endpoints[0].schema',
      [{ ...row, schema: { type: 'object', properties: { a: { type: 'array', uniqueItems: true } } } }],
      /maxItems/,
    ],
    ['endpoints[0].model', [{ ...row, model: 'model' }], /JSON pointer/],
    [
      'endpoints[0].model',
      [{ ...row, model: '/models/0', schema: { type: 'object', properties: { models: { type: 'array' } } } }],
      /leads to models, .* type: 'object'/,
    ],
    ['endpoints[0].model', [{ ...row, model: '' }], /JSON pointer/],
    ['endpoints[0].model', [{ ...row, model: '/a~2' }], /JSON pointer/],
    ['endpoints[0].units', [{ ...row, units: 'call' }], /JSON pointer/],
    ['endpoints[0].expectedUnits', [{ ...row, expectedUnits: 0 }], /whole number from 1/],
    ['endpoints[0].speaks', [{ ...row, speaks: 'cohere' }], /'openai' or 'anthropic'/],
    ['endpoints[0].method', [{ ...row, method: 'GET' }], /is not an option; there are path, schema/],
  ];
  for (const [param, given, says] of refused) {
    it(`is refused at the start: ${param}, ${says.source}`, async () => {
      const options = { mongo: database.connection, endpoints: given as ModelGatewayOptions['endpoints'] & object };
      const error = await createGateway(options).catch((thrown) => thrown);
      expect(error).to.be.instanceOf(GatewayError);
      expect(error).to.include({ code: 'invalid_options', param });
      expect(error.message).to.match(says);
    });
  }
});
