import { expect } from 'chai';
import { createModelGateway, type ModelGateway } from '../../src/index.ts';
import { loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { type Listening, listen, nobody } from '../support/listen.ts';
import { freshUri } from '../support/mongo.ts';

describe('closing a gateway with a delay', () => {
  let gateway: ModelGateway;
  let host: Listening;

  beforeEach(async () => {
    gateway = await createModelGateway({
      ...loopbackOptions,
      mongo: freshUri(),
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'one', baseUrl: nobody }],
      authenticate: () => ({ userId: 'usr_1' }),
    });
    host = await listen((req, res) => gateway.router(req, res));
  });
  afterEach(async () => {
    await gateway.close();
    await host.close();
  });

  const status = async () => (await fetch(`${host.url}/v1/webhooks`)).status;

  it('is not ready at once, and takes requests until another call ends the delay', async () => {
    expect(await gateway.health()).to.have.property('ready', true);
    const closed = gateway.close({ delay: 3_600_000 });
    expect(await gateway.health())
      .to.deep.include({ ready: false })
      .and.have.nested.property('checks.open', 'failed');
    expect(await status()).to.equal(200);
    await gateway.close();
    await closed;
    expect(await status()).to.equal(503);
  });

  it('closes by itself after the delay', async () => {
    const startedAt = performance.now();
    await gateway.close({ delay: 200 });
    // a timer may fire within the millisecond before
    expect(performance.now() - startedAt).to.be.at.least(199);
    expect(await status()).to.equal(503);
  });

  it('takes no delay once it is closed', async () => {
    await gateway.close();
    await gateway.close({ delay: 3_600_000 });
  });

  it('refuses a delay that is no whole number of milliseconds up to an hour', async () => {
    for (const delay of [-1, 0.5, Number.NaN, 3_600_001, '5s' as never]) {
      const error = await gateway.close({ delay }).catch((reason) => reason);
      expect(error).to.deep.include({ code: 'invalid_value', param: 'delay' });
    }
    expect(await gateway.health()).to.have.property('ready', true);
  });

  it('closes at once as the callback of another function', async () => {
    await gateway.close(null as never);
    expect(await status()).to.equal(503);
  });
});
