import { expect } from 'chai';
import express from 'express';
import { createModelGateway, type GatewayHealth } from '../../src/index.ts';
import { type LiveGateway, loopbackOptions, newSecretKey, startGateway } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';
import { freshDatabase } from '../support/mongo.ts';
import { listenForOperations, listenWithProbes } from '../support/operations.ts';
import { eventually, until } from '../support/until.ts';
import { hang, json, ScriptedUpstream } from '../support/upstream.ts';

const low = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
} as const;

describe('The readiness of a gateway', () => {
  let live: LiveGateway;

  before(async () => {
    live = await startGateway();
  });
  after(() => live.close());

  it('names what is missing only on the port of the metrics', async () => {
    const checks = { ...(await live.gateway.health()).checks, indexes: 'failed' } as const;
    const health = async () => ({
      ready: false,
      checks,
      missingIndexes: ['gateway_keys userId_1'],
      missingKeys: ['a'],
    });
    const inside = await listenForOperations({ health, metrics: live.gateway.metrics });
    const outside = await listenWithProbes({ health });
    const answers = await Promise.all([inside, outside].map(async ({ url }) => (await fetch(`${url}/readyz`)).json()));
    expect(answers).to.deep.equal([await health(), { ready: false, checks }]);
    await Promise.all([inside.close(), outside.close()]);
  });

  it('leaves out the checks that the probe excludes', async () => {
    const { checks } = await live.gateway.health();
    const without = { ...checks, database: 'failed', clock: 'unknown' } as const;
    let current: GatewayHealth['checks'] = without;
    const server = await listenWithProbes({ health: async () => ({ ready: false, checks: current }) });
    const get = async (query: string) => {
      const response = await fetch(`${server.url}/readyz${query}`);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    expect((await get('')).status).to.equal(503);
    expect((await get('?exclude=clock')).status).to.equal(503);
    const left = await get('?exclude=database&exclude=clock');
    expect(left).to.deep.equal({ status: 200, body: { ready: true, checks: without } });
    current = { ...without, worker: 'failed' };
    expect((await get('?exclude=database&exclude=clock')).status).to.equal(503);
    expect((await get('?exclude=database&exclude=clock&exclude=worker')).status).to.equal(200);
    current = { ...without, worker: 'failed', open: 'failed' };
    expect((await get('?exclude=database&exclude=clock&exclude=worker')).status).to.equal(503);
    const { status, body } = await get('?exclude=data');
    expect(status).to.equal(400);
    expect(body.error).to.match(/^exclude: there is no check data; there are database, indexes, /);
    await server.close();
  });

  it('lasts while its database answers and its worker runs, until it closes', async () => {
    const operations = await listenForOperations(live.gateway);
    const ready = async () => {
      const response = await fetch(`${operations.url}/readyz`);
      const state = (await response.json()) as GatewayHealth;
      return { status: response.status, ...state };
    };
    await until(async () => (await ready()).checks.writes === 'ok' && (await ready()).status === 200);
    const { disk } = (await ready()).checks;
    // it is that of the machine that runs the test
    expect(disk).to.be.oneOf(['ok', 'degraded']);
    expect(await ready()).to.deep.equal({
      status: 200,
      ready: true,
      checks: {
        database: 'ok',
        indexes: 'ok',
        schema: 'ok',
        sealingKeys: 'ok',
        writes: 'ok',
        disk,
        clock: 'ok',
        upstreams: 'ok',
        worker: 'ok',
        workers: 'ok',
        backlog: 'ok',
        open: 'ok',
      },
    });
    const closing = live.gateway.close();
    expect(await ready()).to.deep.include({ status: 503, ready: false });
    await closing;
    expect((await ready()).checks).to.include({ worker: 'off', open: 'failed' });
    await operations.close();
  });
});

describe('A process that needs repair, and that none beside it would do better', () => {
  it('stays ready while deliveries are late, no process makes attempts and an upstream hangs', async () => {
    const database = await freshDatabase();
    const upstream = await ScriptedUpstream.start();
    upstream.script = hang;
    const gateway = await createModelGateway({
      ...loopbackOptions,
      mongo: database.connection,
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'slow', baseUrl: upstream.baseUrl, timeouts: { firstByte: 300 } }],
    });
    const api = await listen(express().use(gateway.router));
    const operations = await listenForOperations(gateway);
    const chat = async (userId: string) => {
      const { key } = await gateway.keys.create({ userId });
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] });
      return (await fetch(`${api.url}/v1/chat/completions`, { method: 'POST', headers, body })).status;
    };
    /** What every probe of this process must answer, well or ill. */
    const ready = async () => {
      const response = await fetch(`${operations.url}/readyz`);
      const state = (await response.json()) as GatewayHealth;
      expect([response.status, state.ready], JSON.stringify(state)).to.deep.equal([200, true]);
      return state;
    };

    // no receiver is there: the fan-out is what matters
    await gateway.webhooks.create('usr_1', { url: 'http://127.0.0.1:9/', events: [low.type] });
    await gateway.publish(low);
    const overdue = [{ $set: { fanOutAt: { $subtract: ['$$NOW', 600_000] } } }];
    await database.connection.collection('gateway_events').updateMany({ fanOut: 'pending' }, overdue);
    expect(await Promise.all(Array.from({ length: 5 }, () => chat('usr_1')))).to.deep.equal([504, 504, 504, 504, 504]);
    const ill = await eventually(ready, ({ checks }) => checks.backlog === 'degraded');
    expect(ill.checks).to.include({ workers: 'degraded', upstreams: 'degraded', worker: 'off' });
    expect(ill.hangingUpstreams).to.deep.equal(['slow']);

    await gateway.start();
    upstream.script = json(200, { choices: [{}] });
    expect(await chat('usr_2')).to.equal(200);
    const well = await eventually(ready, ({ checks }) => checks.backlog === 'ok');
    expect(well.checks).to.include({ workers: 'ok', upstreams: 'ok', worker: 'ok' });
    expect(well).to.not.have.property('hangingUpstreams');

    await operations.close();
    await api.close();
    await gateway.close();
    await upstream.close();
    await database.drop();
  });

  it('knows another process that makes attempts', async () => {
    const database = await freshDatabase();
    const settings = { ...loopbackOptions, mongo: database.connection, secretKeys: [newSecretKey()] };
    const api = await createModelGateway(settings);
    const worker = await createModelGateway(settings);
    await worker.start();
    // no worker can claim what is not pending, and it stays due
    await database.connection.collection<{ _id: string }>('gateway_deliveries').insertOne({
      _id: 'dlv_late',
      state: 'canceled',
      claimableAt: new Date(Date.now() - 600_000),
    } as { _id: string });
    const { checks, ready } = await eventually(api.health, (health) => health.checks.backlog === 'degraded');
    expect([checks.workers, ready]).to.deep.equal(['ok', true]);
    await Promise.all([api.close(), worker.close()]);
    await database.drop();
  });
});
