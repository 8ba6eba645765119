import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { readConfiguration } from '../../src/cli/config/config.ts';
import { createModelGateway, GatewayError } from '../../src/index.ts';
import { loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';

describe('a stand-alone server that other machines can reach', () => {
  let receiver: Server;
  let arrived = 0;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  before(async () => {
    database = await freshDatabase();
    receiver = createServer((_req, res) => {
      arrived += 1;
      res.end();
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  });
  after(async () => {
    receiver.close();
    await database.drop();
  });

  for (const [HOST, isOpen] of [
    ['0.0.0.0', false],
    ['::', false],
    ['127.0.0.1', true],
  ] as const) {
    it(`${isOpen ? 'lets' : 'does not let'} webhooks call what listens on its own loopback with HOST=${HOST}`, async () => {
      const { allowHttp, allowPrivateNetworks } = readConfiguration({ HOST });
      const gateway = await createModelGateway({
        mongo: database.connection,
        secretKeys: [newSecretKey()],
        ...loopbackOptions,
        allowHttp,
        allowPrivateNetworks,
      });
      const { port } = receiver.address() as AddressInfo;
      const refused: unknown[] = [];
      for (const url of [`http://127.0.0.1:${port}`, `http://localhost:${port}`, `https://127.0.0.1:${port}`]) {
        const webhook = { url, events: ['credits.low'], secret: 'a-long-enough-secret' };
        await gateway.webhooks.create('usr_1', webhook).catch((error: unknown) => refused.push(error));
      }
      await gateway.close();
      expect(refused).to.have.length(isOpen ? 0 : 3);
      for (const error of refused) expect(error).to.be.instanceOf(GatewayError);
      expect(arrived).to.equal(0);
    });
  }
});
