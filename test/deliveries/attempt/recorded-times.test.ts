import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createNetwork } from '../../faults/cluster/network.ts';
import { freshUri } from '../../support/mongo.ts';
import {
  type DeliveryServices,
  ended,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
} from '../delivery-services.ts';
import { startReceiver, type TestReceiver } from '../receiver.ts';
import { openDeliveries } from './harness.ts';
import { pendingDelivery } from './pending-delivery.ts';

/** `$$NOW` is up to 10 ms behind the server's own clock, and a busy machine waits for nobody. Milliseconds. */
const tolerance = 50;

describe('The recorded time of an attempt', () => {
  let connection: Connection;
  let webhooks: FakeWebhooks;
  let receiver: TestReceiver;
  let gateway: DeliveryServices | undefined;

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri()).asPromise();
    webhooks = fakeWebhooks();
    receiver = await startReceiver();
    webhooks.add(receiver.url);
  });
  afterEach(async () => {
    await connection.getClient().db('admin').command({ configureFailPoint: 'failCommand', mode: 'off' });
    await gateway?.close();
    await receiver.stop();
    await connection.dropDatabase();
    await connection.close();
  });

  /** How long after its recorded start, and its recorded end, the receiver had the request of an event. Milliseconds. */
  async function received(id: string) {
    const { attempts = [] } = (await gateway?.delivery(id, ended)) ?? {};
    const [{ startedAt, durationMs } = expect.fail('no attempt')] = attempts;
    const { at } =
      receiver.received.find(({ headers }) => headers['webhook-id'] === id) ?? expect.fail('it was not received');
    const afterStart = performance.timeOrigin + at - Number(startedAt);
    return { afterStart, afterEnd: afterStart - durationMs };
  }

  it('is when its request was sent, however long it waited for a place', async () => {
    // half of it is time enough for a busy machine
    const holding = 2_000;
    receiver.answers((res) => setTimeout(() => res.end('ok'), holding));
    gateway = await startDeliveryServices(connection, webhooks, { concurrency: 1, maxWait: 10_000 });
    await gateway.start();
    const published = await Promise.all([gateway.publish(payment), gateway.publish(payment)]);

    for (const { id } of published) {
      const { afterStart, afterEnd } = await received(id);
      expect(afterStart).to.be.within(-tolerance, holding / 2);
      expect(afterEnd).to.be.below(0);
    }
  });

  it('is when its request was sent, however long the database took to answer its claim', async () => {
    gateway = await startDeliveryServices(connection, webhooks);
    const { id } = await gateway.publishStored(payment);
    // half of it is time enough for a busy machine
    const blockTimeMS = 2_000;
    const data = { namespace: `${connection.name}.gateway_deliveries`, failCommands: ['find'], blockConnection: true };
    const admin = connection.getClient().db('admin');
    await admin.command({ configureFailPoint: 'failCommand', mode: 'alwaysOn', data: { ...data, blockTimeMS } });
    await gateway.start();
    const { afterStart, afterEnd } = await received(id);

    expect(afterStart).to.be.within(-tolerance, blockTimeMS / 2);
    expect(afterEnd).to.be.below(tolerance);
  });

  it('is when its request was sent, however long the database took to answer the claim of one that was asked for', async () => {
    const network = createNetwork();
    const uri = new URL(freshUri());
    uri.host = await network.addMember(0, Number(uri.port));
    uri.pathname = `/${connection.name}`;
    uri.searchParams.delete('replicaSet');
    uri.searchParams.set('directConnection', 'true');
    const far = await mongoose.createConnection(uri.href).asPromise();
    try {
      const processes = openDeliveries(far);
      await processes.deliveries.create(pendingDelivery('dlv_1'));
      const sent: { readonly at: number; readonly startedAt: Date | undefined }[] = [];
      const manual = processes.manual({
        async send({ startedAt }) {
          sent.push({ at: Date.now(), startedAt });
          return { ...(startedAt && { startedAt }), status: 200, durationMs: 1, response: '' };
        },
        target: webhooks.forDelivery,
      });
      // a process that works has read the clock
      await manual.clock.now();
      const wait = 2_000;
      const answer = network.inject({ action: 'hold', way: 'down' });
      const claiming = manual.claim('usr_1', 'dlv_1');
      // how long the answer is held
      await sleep(wait);
      answer();
      await manual.make((await claiming) ?? expect.fail('it was not claimed'));
      const [{ at, startedAt } = expect.fail('it was not sent')] = sent;

      expect(at - Number(startedAt)).to.be.within(-tolerance, wait / 2);
    } finally {
      await far.close();
      await network.close();
    }
  });
});
