import { expect } from 'chai';
import type { UsageRecord } from '../../src/index.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { events, json, ScriptedUpstream, stall } from '../support/upstream.ts';

describe('the usage of model calls', () => {
  let upstream: ScriptedUpstream;
  let live: LiveGateway;
  let told: UsageRecord[];

  beforeEach(async () => {
    told = [];
    upstream = await ScriptedUpstream.start();
    live = await startGateway({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      onUsage: (record) => void told.push(record),
    });
  });

  afterEach(async () => {
    await live.close();
    await upstream.close();
  });

  const ask = (extra: object = {}) => ({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...extra });
  const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 };

  it('is reported to the host, with the key that was used', async () => {
    upstream.script = json(200, { choices: [{}], usage });
    const { status } = await live.call('POST', '/v1/chat/completions', ask());
    expect(status).to.equal(200);
    await until(() => told.length > 0);
    expect(told[0]).to.include({ userId: 'usr_1', inputTokens: 3, outputTokens: 5, estimated: false, upstream: 'one' });
    expect(told[0]?.keyId).to.match(/^key_/);
    expect(told[0]?.id).to.match(/^use_/);
  });

  it('is stored unchanged even if the host changes the record it is given', async () => {
    const { connection, drop } = await freshDatabase();
    const altering = await startGateway({
      mongo: connection,
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      onUsage(record) {
        Object.assign(record, { userId: 'usr_2', inputTokens: 0, outputTokens: 0 });
        record.startedAt.setTime(0);
      },
    });
    upstream.script = json(200, { choices: [{}], usage });
    expect((await altering.call('POST', '/v1/chat/completions', ask())).status).to.equal(200);
    await altering.close();
    const stored = await connection.collection('gateway_usage').findOne();
    expect(stored).to.include({ userId: 'usr_1', inputTokens: 3, outputTokens: 5 });
    expect(stored?.startedAt.getTime()).to.be.above(0);
    await drop();
  });

  it('has a record for every answered call once the gateway has closed, even for a stream that was cut off', async () => {
    const { connection, drop } = await freshDatabase();
    const { gateway, url, close } = await startGateway({
      mongo: connection,
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      authenticate: () => ({ userId: 'usr_7' }),
      drainTimeout: 0,
    });
    const post = (body: object) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });

    upstream.script = events([{ choices: [{}], usage }]);
    for (let i = 0; i < 20; i += 1) await (await post(ask({ stream: true }))).text();
    upstream.script = stall('data: {"choices":[{}]}\n\n');
    const cutOff = await post(ask({ stream: true }));
    upstream.script = json(400, {});
    await (await post(ask())).text();

    await gateway.close();
    expect(await cutOff.text()).to.include('shutting_down');
    const records = await connection.collection('gateway_usage').find().toArray();
    expect(records.map(({ ending }) => ending).sort()).to.deep.equal([
      ...Array(20).fill('complete'),
      'upstream_failed',
    ]);
    for (const record of records) expect(record).to.include({ userId: 'usr_7', keyId: null, model: 'm' });

    await close();
    await drop();
  });
});
