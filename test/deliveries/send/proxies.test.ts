import { expect } from 'chai';
import { newSecretKey, startGateway } from '../../support/gateway.ts';
import { nobody } from '../../support/listen.ts';
import { recordingLogger } from '../../support/logger.ts';
import { freshUri } from '../../support/mongo.ts';
import { ForwardProxy } from '../../support/servers/forward-proxy.ts';
import { startReceiver } from '../receiver.ts';

const proxyOfNobody = nobody.replace('/v1', '').replace('//', '//somebody:canary-gone@');

describe('deliveries and proxies', () => {
  let proxy: ForwardProxy;
  let receiver: Awaited<ReturnType<typeof startReceiver>>;
  before(async () => {
    receiver = await startReceiver();
    proxy = await ForwardProxy.start({ credentials: 'us:canary-password' });
    proxy.hosts['receiver.invalid'] = Number(new URL(receiver.url).port);
  });
  afterEach(() => {
    proxy.behaviour = 'tunnel';
    proxy.tunnels.length = 0;
    receiver.received.length = 0;
  });
  after(async () => {
    await receiver.stop();
    await proxy.close();
  });

  type Options = Parameters<typeof startGateway>[0];
  /** Sends a test event to a webhook with this URL. @returns the attempts as the API shows them */
  async function attemptsTo(url: string, options: Options) {
    const logger = recordingLogger();
    const live = await startGateway({ logger, ...options });
    try {
      const created = await live.call('POST', '/v1/webhooks', { url, events: ['credits.low'] });
      expect(created.status).to.equal(201);
      const { body } = await live.call('POST', `/v1/webhooks/${created.body.id}/test`, { type: 'credits.low' });
      expect(JSON.stringify([body, logger.lines]))
        .to.not.include('canary')
        .and.not.include('Basic ');
      return body;
    } finally {
      await live.close();
    }
  }

  it('do not meet where only upstreams have one', async () => {
    const result = await attemptsTo(receiver.url, { proxy: proxy.url() });
    expect(JSON.stringify(result)).to.include('"status":200');
    expect(receiver.received).to.have.length(1);
    expect(proxy.tunnels).to.deep.equal([]);
  });

  it('meet by deliveries.proxy, which alone resolves the names and judges the addresses', async () => {
    const options = { allowPrivateNetworks: [], deliveries: { proxy: proxy.url() } };
    const result = await attemptsTo('http://receiver.invalid/hook', options);
    expect(JSON.stringify(result)).to.include('"status":200');
    expect(receiver.received[0]?.headers)
      .to.include({ host: 'receiver.invalid' })
      .and.include.keys('x-service-signature')
      .and.not.include.keys('proxy-authorization');
    expect(proxy.tunnels).to.deep.equal(['receiver.invalid:80']);
  });

  for (const host of ['localhost', 'localhost.', 'hooks.localhost', '127.0.0.1']) {
    it(`fail with address_not_allowed for ${host} before they meet deliveries.proxy, if it was allowed once and is not any more`, async () => {
      const { port } = new URL(receiver.url);
      const options = { mongo: freshUri(), secretKeys: [newSecretKey()] };
      const before = await startGateway({
        ...options,
        allowPrivateNetworks: ['127.0.0.0/8', '::1/128'],
        deliveries: { proxy: proxy.url() },
      });
      const created = await before.call('POST', '/v1/webhooks', {
        url: `http://${host}:${port}/hook`,
        events: ['credits.low'],
      });
      expect(created.status).to.equal(201);
      await before.close();
      const later = await startGateway({ ...options, allowPrivateNetworks: [], deliveries: { proxy: proxy.url() } });
      const { body } = await later.call('POST', `/v1/webhooks/${created.body.id}/test`, { type: 'credits.low' });
      await later.close();
      expect(JSON.stringify(body)).to.include('"address_not_allowed"');
      expect(proxy.tunnels).to.deep.equal([]);
    });
  }

  for (const status of [403, 407]) {
    it(`fail with proxy_refused where the proxy refuses the host with ${status}`, async () => {
      proxy.behaviour = status;
      const result = await attemptsTo('http://receiver.invalid/hook', { deliveries: { proxy: proxy.url() } });
      expect(JSON.stringify(result)).to.include('"proxy_refused"');
      expect(receiver.received).to.deep.equal([]);
    });
  }

  it('fail with proxy_unreachable where the proxy is not there', async () => {
    const result = await attemptsTo('http://receiver.invalid/hook', { deliveries: { proxy: proxyOfNobody } });
    expect(JSON.stringify(result)).to.include('"proxy_unreachable"');
  });
});
