import { expect } from 'chai';
import { createOperationsListener, withProbes } from '../../src/cli/server/operations-listener.ts';
import type { GatewayHealth } from '../../src/index.ts';
import { type LiveGateway, listen, startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';

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
    const inside = await listen(createOperationsListener({ health, metrics: live.gateway.metrics }));
    const outside = await listen(withProbes({ health }, (_req, res) => void res.end()));
    const answers = await Promise.all([inside, outside].map(async ({ url }) => (await fetch(`${url}/readyz`)).json()));
    expect(answers).to.deep.equal([await health(), { ready: false, checks }]);
    await Promise.all([inside.close(), outside.close()]);
  });

  it('leaves out the checks that the probe excludes', async () => {
    const { checks } = await live.gateway.health();
    const without = { ...checks, database: 'failed', clock: 'unknown' } as const;
    const server = await listen(
      withProbes({ health: async () => ({ ready: false, checks: without }) }, (_req, res) => void res.end()),
    );
    const get = async (query: string) => {
      const response = await fetch(`${server.url}/readyz${query}`);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    expect((await get('')).status).to.equal(503);
    expect((await get('?exclude=clock')).status).to.equal(503);
    const left = await get('?exclude=database&exclude=clock');
    expect(left).to.deep.equal({ status: 200, body: { ready: true, checks: without } });
    const { status, body } = await get('?exclude=data');
    expect(status).to.equal(400);
    expect(body.error).to.match(/^exclude: there is no check data; there are database, indexes, /);
    await server.close();
  });

  it('lasts while its database answers and its worker runs, until it closes', async () => {
    const operations = await listen(createOperationsListener(live.gateway));
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
