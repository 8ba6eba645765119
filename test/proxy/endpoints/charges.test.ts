import { expect } from 'chai';
import type { ModelGatewayOptions, UsageRecord } from '../../../src/index.ts';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import { chunks, json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

const object = { type: 'object' } as const;
const item = { type: 'object', properties: { size: { type: 'integer', maximum: 9 } } };
const endpoints: NonNullable<ModelGatewayOptions['endpoints']> = [
  { path: '/v1/measure', schema: object, units: '/data/units', expectedUnits: 4 },
  { path: '/v1/weigh', schema: object, units: '/größen/1/número' },
  {
    path: '/v1/choose',
    schema: {
      ...object,
      properties: { items: { type: 'array', items: item } },
      anyOf: [{ properties: { parameters: { type: 'object', properties: { top: { type: 'integer' } } } } }, {}],
      discriminator: { propertyName: 'kind', mapping: { one: '#/components/schemas/One' } },
    },
    model: '/parameters/model',
  },
];
const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;

describe('what an endpoint of a host is charged for', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  const records: UsageRecord[] = [];

  before(async () => {
    upstream = await ScriptedUpstream.start();
    const upstreams = [{ name: 'up', baseUrl: upstream.baseUrl, aliases: { quick: 'vendor/sorter' } }];
    const onUsage = (record: UsageRecord) => void records.push(record);
    server = await startModelServer({ upstreams, endpoints, hooks: { onUsage } });
  });
  beforeEach(() => {
    records.length = 0;
    upstream.requests.length = 0;
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  function post(path: string, body: string): Promise<Response> {
    const headers = { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' };
    return fetch(server.baseUrl + path, { method: 'POST', headers, body });
  }

  async function recorded(script: Script, path = '/measure', body: object = { model: 'm' }): Promise<UsageRecord> {
    upstream.script = script;
    const response = await post(path, JSON.stringify(body));
    expect([response.status, await response.text()][0]).to.equal(200);
    await until(() => records.length > 0);
    return records[0] as UsageRecord;
  }

  it('has the output of a stream, in whatever words it was asked for', async () => {
    const parts = Array.from({ length: 5 }, () => event({ delta: 'some thirty characters of text' }));
    for (const stream of [1, 'true', undefined]) {
      records.length = 0;
      const { outputTokens, estimated } = await recorded(chunks(parts), '/measure', { model: 'm', stream });
      expect([outputTokens, estimated]).to.deep.equal([50, true]);
    }
  });

  it('is never nothing for a small part of a unit', async () => {
    for (const units of [0.000_25, 0.000_000_1]) {
      records.length = 0;
      expect((await recorded(json(200, { data: { units } }))).units).to.equal(Math.max(units, 0.000_001));
    }
  });

  for (const usage of [
    { prompt_tokens: 5, completion_tokens: -1 },
    { prompt_tokens: 5, completion_tokens: 2, total_tokens: 0.5 },
    { input_tokens: 5, total_tokens: '9' },
  ]) {
    it(`is an estimate where a usage cannot be believed: ${JSON.stringify(usage)}`, async () => {
      expect(await recorded(json(200, { usage }))).to.include({ inputTokens: 4, estimated: true });
    });
  }

  const text = 'x'.repeat(200_000);
  const amounts: [where: string, script: Script, path: string, units: number][] = [
    ['behind a long text', json(200, { data: { text: text + text, units: 7 } }), '/measure', 7],
    ['in a long event', chunks([event({ data: { text, units: 7 } })]), '/measure', 7],
    ['in a list', json(200, { größen: [{}, { número: 7 }] }), '/weigh', 7],
    ['in a list of an event', chunks([event({ größen: [{}, { número: 7 }] })]), '/weigh', 7],
    ['elsewhere', json(200, { größen: [{ número: 7 }, [{ número: 7 }], { número: 7 }] }), '/weigh', 1],
    ['deeper', json(200, { a: { data: { units: 7 } }, data: { units: { units: 7 } } }), '/measure', 4],
  ];
  for (const [where, script, path, units] of amounts) {
    it(`has units that stand ${where}`, async () => {
      expect((await recorded(script, path)).units).to.equal(units);
    });
  }

  const results: [what: string, script: Script][] = [
    ['a list beside an error', json(200, { predictions: [1], error: 'one of two failed' })],
    ['an object beside a code', json(200, { code: 10_000, message: 'success', result: { label: 'a' } })],
    ['events of text', chunks(['data: some\n\n', 'data: words\n\n'])],
  ];
  for (const [what, script] of results) {
    it(`is a call that is answered with ${what}`, async () => {
      expect(await recorded(script)).to.include({ units: 4, ending: 'complete' });
      expect(upstream.requests).to.have.length(1);
    });
  }

  it('is the model that a body names, whatever alternatives its schema has', async () => {
    const record = await recorded(json(200, { chosen: 1 }), '/choose', { parameters: { model: 'quick', top: 1 } });
    expect(record.model).to.equal('quick');
    expect(upstream.last.body.toString()).to.equal('{"parameters":{"model":"vendor/sorter","top":1}}');
  });

  it('is what was checked: no other reader finds something else in a list', async () => {
    for (const [body, code] of [
      ['{"items":[{"size":99,"size":1}]}', 'duplicate_parameter'],
      ['{"items":[{"size":1,"Size":99}]}', 'unknown_parameter'],
      ['{"other":{"any":1,"any":2}}', 'duplicate_parameter'],
    ] as const) {
      const response = await post('/choose', body);
      const { error } = (await response.json()) as { error: { code: string } };
      expect([response.status, error.code], body).to.deep.equal([400, code]);
    }
    expect(upstream.requests).to.have.length(0);
  });
});
