import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { ModelGateway, ModelGatewayOptions } from '../../../src/index.ts';
import { createGateway, loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { forkCompiled } from '../../support/processes/compiled-script.ts';
import { createAuthority } from '../../support/servers/certificates.ts';
import { until } from '../../support/until.ts';
import { startReceiver } from '../receiver.ts';
import { startSlowHandshakes } from '../slow-handshakes.ts';

const script = fileURLToPath(new URL('./worker-process.ts', import.meta.url));
const secret = 'a-long-enough-secret';

describe('A worker that was stopped for longer than its lease', function () {
  this.timeout(60_000);
  const { logger: _, ...loopback } = loopbackOptions;
  const options = { ...loopback, secretKeys: [newSecretKey()], deliveries: { concurrencyPerWebhook: 15 } };
  const authority = createAuthority();
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let publisher: ModelGateway;
  let receiver: Awaited<ReturnType<typeof startSlowHandshakes>>;
  let folder: string;

  beforeEach(async () => {
    database = await freshDatabase();
    publisher = await createGateway({ ...options, mongo: database.connection });
    receiver = await startSlowHandshakes(authority.issue({ name: 'localhost' }));
    folder = mkdtempSync(join(tmpdir(), 'stopped-worker-'));
    writeFileSync(join(folder, 'ca.pem'), authority.cert);
  });
  afterEach(async () => {
    await publisher.close();
    await receiver.stop();
    await database.drop();
    rmSync(folder, { recursive: true });
  });

  async function publish(count: number): Promise<void> {
    const data = { user_id: 'usr_1', credits_remaining: 1, threshold: 5 };
    for (let i = 0; i < count; i += 1) await publisher.publish({ type: 'credits.low', userId: 'usr_1', data });
  }

  async function startWorker(more: Pick<ModelGatewayOptions, 'retryDelays'> = {}) {
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem') };
    const child = await forkCompiled(script, { uri: database.uri, options: { ...options, ...more } }, { env });
    await once(child, 'message');
    return child;
  }

  it('sends no attempt that others have ended, even if it waited for a place or for TLS', async () => {
    const count = 40;
    await publisher.webhooks.create('usr_1', { url: receiver.url, events: ['credits.low'], secret });
    await publish(count);
    const stopped = await startWorker();
    await until(() => receiver.kept.size === options.deliveries.concurrencyPerWebhook);
    stopped.kill('SIGSTOP');
    receiver.keepNoMore();
    const other = await startWorker();
    const delivered = () => database.connection.collection('gateway_deliveries').countDocuments({ state: 'delivered' });
    await until(async () => (await delivered()) === count);
    const before = receiver.arrivals.length;
    receiver.release();
    stopped.kill('SIGCONT');
    for (const child of [stopped, other]) {
      // what it had begun has ended when it has
      child.send('close');
      await once(child, 'exit');
    }

    expect(receiver.arrivals.length - before).to.equal(0);
    expect(receiver.arrivals).to.have.length(count);
    const deliveries = await database.connection.collection('gateway_deliveries').find().toArray();
    expect(deliveries.map(({ attempts }) => attempts.length)).to.deep.equal(Array(count).fill(1));
  });

  it('records the 2xx that it finds when it is woken, even if others have failed the attempt since', async () => {
    let answer = () => {};
    const plain = await startReceiver((res) => {
      answer = () => void res.end('taken');
    }, 500);
    try {
      await publisher.webhooks.create('usr_1', { url: plain.url, events: ['credits.low'], secret });
      await publish(1);
      // its one attempt
      const stopped = await startWorker({ retryDelays: [] });
      await plain.count(1);
      stopped.kill('SIGSTOP');
      answer();
      const other = await startWorker({ retryDelays: [] });
      const found = () => database.connection.collection('gateway_deliveries').findOne();
      await until(async () => (await found())?.state === 'failed');
      stopped.kill('SIGCONT');
      for (const child of [stopped, other]) {
        child.send('close');
        await once(child, 'exit');
      }

      expect(plain.received).to.have.length(2);
      const delivery = await found();
      expect(delivery).to.include({ state: 'delivered', lease: null });
      expect(delivery?.attempts).to.have.length(1);
      expect(delivery?.attempts[0]).to.include({ number: 1, status: 200, response: 'taken' });
    } finally {
      await plain.stop();
    }
  });
});
