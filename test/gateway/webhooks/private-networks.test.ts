import { createServer, type Server } from 'node:http';
import { expect } from 'chai';
import { createModelGateway, type Logger, type ModelGateway } from '../../../src/index.ts';
import { forbiddenHosts } from '../../support/forbidden-hosts.ts';
import { type LiveGateway, newSecretKey, startGateway } from '../../support/gateway.ts';
import { listenOn } from '../../support/listen.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { eventually } from '../../support/until.ts';

const events = ['payment.completed'] as const;
const secret = 'a secret of the receiver';
const data = { payment_id: 'pay_1', amount: 20, currency: 'usd', credits_added: 2000, user_id: 'usr_1' };

describe('Private networks', () => {
  describe('over the API', () => {
    let live: LiveGateway;
    let id: string;
    const url = 'https://example.com/hook';

    before(async () => {
      live = await startGateway({ allowPrivateNetworks: [] });
      const { body } = await live.call('POST', '/v1/webhooks', { url, events, secret });
      id = body.id;
    });
    after(() => live.close());

    for (const host of forbiddenHosts) {
      for (const scheme of ['http', 'https']) {
        it(`are refused at creation: ${scheme}://${host}`, async () => {
          const { status, body } = await live.call('POST', '/v1/webhooks', {
            url: `${scheme}://${host}:8443/hook`,
            events,
            secret,
          });
          expect(status).to.equal(400);
          expect(body.error).to.include({ code: 'url_not_allowed', param: 'url', type: 'invalid_request_error' });
        });
      }

      it(`cannot be set by PATCH, which takes no URL: ${host}`, async () => {
        const { status, body } = await live.call('PATCH', `/v1/webhooks/${id}`, {
          url: `https://${host}/`,
          active: true,
        });
        expect(status).to.equal(400);
        expect(body.error).to.include({ code: 'unknown_parameter', param: 'url' });
      });
    }

    it('are not registered by any of these requests', async () => {
      const { body } = await live.call('GET', '/v1/webhooks');
      expect(body.data.map((webhook: { url: string }) => webhook.url)).to.deep.equal([url]);
    });
  });

  describe('that are allowed', () => {
    let database: Awaited<ReturnType<typeof freshDatabase>>;
    let receiver: Server;
    let url: string;
    let arrived: number;
    const secretKeys = [newSecretKey()];

    beforeEach(async () => {
      database = await freshDatabase();
      arrived = 0;
      receiver = createServer((_req, res) => {
        arrived += 1;
        res.end();
      });
      url = `http://127.0.0.1:${await listenOn(receiver)}/`;
    });
    afterEach(async () => {
      receiver.closeAllConnections();
      receiver.close();
      await database.drop();
    });

    async function withGateway<T>(
      networks: readonly string[],
      use: (gateway: ModelGateway, warnings: unknown[][]) => Promise<T>,
      allowHttp = true,
    ): Promise<T> {
      const warnings: unknown[][] = [];
      const logger: Logger = { ...silentLogger, warn: (...line) => void warnings.push(line) };
      const gateway = await createModelGateway({
        mongo: database.connection,
        secretKeys,
        allowHttp,
        allowPrivateNetworks: networks,
        retryDelays: [],
        logger,
      });
      try {
        return await use(gateway, warnings);
      } finally {
        await gateway.close();
      }
    }

    async function codeOfDelivery(gateway: ModelGateway): Promise<string> {
      await gateway.start();
      const { id } = await gateway.publish({ type: events[0], userId: 'usr_1', data });
      const found = await eventually(
        () => database.connection.collection('gateway_deliveries').findOne({ eventId: id }),
        (delivery) => delivery !== null && delivery.state !== 'pending',
      );
      return found?.attempts[0].code ?? found?.state;
    }

    it('cause a warning at start', async () => {
      const networks = ['127.0.0.0/8', 'fd00::/8'];
      await withGateway(networks, async (_gateway, warnings) => {
        expect(warnings).to.deep.equal([
          ['webhooks may reach networks that are not public', { allowPrivateNetworks: networks }],
        ]);
      });
      await withGateway([], async (_gateway, warnings) => expect(warnings).to.deep.equal([]));
    });

    it('get deliveries only while they are allowed: afterwards a webhook fails, even if it is paused and resumed', async () => {
      const id = await withGateway(['127.0.0.1/32'], async (gateway) => {
        const webhook = await gateway.webhooks.create('usr_1', { url, events, secret });
        expect(await codeOfDelivery(gateway)).to.equal('delivered');
        return webhook.id;
      });
      await withGateway(['10.0.0.0/8'], async (gateway) => {
        await gateway.webhooks.update('usr_1', id, { active: false });
        await gateway.webhooks.update('usr_1', id, { active: true });
        expect(await codeOfDelivery(gateway)).to.equal('address_not_allowed');
      });
      expect(arrived).to.equal(1);
    });

    it('get deliveries over plain http only while that is allowed: afterwards a webhook fails with http_not_allowed', async () => {
      const networks = ['127.0.0.1/32'];
      const id = await withGateway(networks, async (gateway) => {
        const webhook = await gateway.webhooks.create('usr_1', { url, events, secret });
        expect(await codeOfDelivery(gateway)).to.equal('delivered');
        return webhook.id;
      });
      await withGateway(
        networks,
        async (gateway) => {
          await gateway.webhooks.update('usr_1', id, { active: false });
          await gateway.webhooks.update('usr_1', id, { active: true });
          expect(await codeOfDelivery(gateway)).to.equal('http_not_allowed');
        },
        false,
      );
      expect(arrived).to.equal(1);
    });
  });
});
