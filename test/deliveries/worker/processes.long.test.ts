import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { ModelGateway } from '../../../src/index.ts';
import { createGateway, loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { forkCompiled } from '../../support/processes/compiled-script.ts';
import { startReceiver, type TestReceiver } from '../receiver.ts';

const path = fileURLToPath(new URL('./worker-process.ts', import.meta.url));

describe('Worker processes', function () {
  this.timeout(60_000);
  const { logger: _, ...loopback } = loopbackOptions;
  const options = { ...loopback, secretKeys: [newSecretKey()], limits: { webhooks: 20_000 } };
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let publisher: ModelGateway;
  let receiver: TestReceiver;

  beforeEach(async () => {
    database = await freshDatabase();
    receiver = await startReceiver();
    publisher = await createGateway({ ...options, mongo: database.connection });
  });
  afterEach(async () => {
    await publisher.close();
    await receiver.stop();
    await database.drop();
  });

  async function startWorker() {
    const child = await forkCompiled(path, { uri: database.uri, options });
    await once(child, 'message');
    return child;
  }

  async function publish(count: number): Promise<void> {
    const data = { user_id: 'usr_1', credits_remaining: 1, threshold: 5 };
    await Promise.all(
      Array.from({ length: count }, () => publisher.publish({ type: 'credits.low', userId: 'usr_1', data })),
    );
  }

  for (const count of [1, 2, 4]) {
    it(`share the waiting deliveries among ${count}, and make no attempt twice`, async () => {
      const urls = Array.from({ length: 5 }, (_, i) => `${receiver.url}/${i}`);
      const secret = 'a-long-enough-secret';
      await Promise.all(
        urls.map((url) => publisher.webhooks.create('usr_1', { url, events: ['credits.low'], secret })),
      );
      await publish(60);
      const workers = await Promise.all(Array.from({ length: count }, startWorker));
      await receiver.count(300, 40_000);
      await publish(20);
      await receiver.count(400, 20_000);
      const gone = workers.map((worker) => once(worker, 'exit'));
      for (const worker of workers) worker.send('close');
      await Promise.all(gone);
      const made = receiver.received.map(({ headers, path: url }) => `${headers['webhook-id']} ${url}`);

      expect(made).to.have.length(400);
      expect(new Set(made).size).to.equal(400);
      const states = await database.connection.collection('gateway_deliveries').distinct('state');
      expect(states).to.deep.equal(['delivered']);
    });
  }
});
