import { expect } from 'chai';
import { readConfiguration } from '../../../src/cli/config/config.ts';
import { GatewayError } from '../../../src/index.ts';
import { createGateway } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';

describe('a stand-alone server', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  before(async () => {
    database = await freshDatabase();
  });
  after(() => database.drop());

  for (const [HOST, isOpen] of [
    ['0.0.0.0', false],
    ['::', false],
    ['127.0.0.1', true],
  ] as const) {
    it(`${isOpen ? 'accepts' : 'refuses'} webhooks to its own loopback address with HOST=${HOST}`, async () => {
      const { allowHttp, allowPrivateNetworks } = readConfiguration({ HOST });
      const gateway = await createGateway({
        mongo: database.connection,
        allowHttp,
        allowPrivateNetworks,
      });
      const refused: unknown[] = [];
      for (const url of ['http://127.0.0.1:9000', 'http://localhost:9000', 'https://127.0.0.1:9000']) {
        const webhook = { url, events: ['credits.low'], secret: 'a-long-enough-secret' };
        await gateway.webhooks.create('usr_1', webhook).catch((error: unknown) => refused.push(error));
      }
      await gateway.close();
      expect(refused).to.have.length(isOpen ? 0 : 3);
      for (const error of refused) expect(error).to.be.instanceOf(GatewayError);
    });
  }
});
