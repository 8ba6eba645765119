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

  it('tells what is missing on the port of the metrics alone', async () => {
    const { checks } = await live.gateway.health();
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

  it('lasts while its database answers and its worker runs, and no more once it closes', async () => {
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
