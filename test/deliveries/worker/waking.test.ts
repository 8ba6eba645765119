import { expect } from 'chai';
import { freshDatabase } from '../../support/mongo.ts';
import {
  type DeliveryServices,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
} from '../delivery-services.ts';
import { startReceiver, type TestReceiver } from '../receiver.ts';

describe('What a process without workers publishes', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let webhooks: FakeWebhooks;
  let receiver: TestReceiver;
  let publisher: DeliveryServices;
  let worker: DeliveryServices;

  async function open(choices: object): Promise<void> {
    publisher = await startDeliveryServices(database.connection, webhooks);
    worker = await startDeliveryServices(database.connection, webhooks, choices);
    await worker.start();
    // the stream is open by then
    await new Promise((resolve) => setTimeout(resolve, 300));
  }

  /** Milliseconds from publishing to the receiver, three times in a row. */
  async function waits(): Promise<number[]> {
    const found: number[] = [];
    for (let i = 1; i <= 3; i += 1) {
      await publisher.publish(payment);
      const published = performance.now();
      const requests = await receiver.count(i);
      found.push((requests.at(-1)?.at ?? Number.POSITIVE_INFINITY) - published);
    }
    return found;
  }

  beforeEach(async () => {
    database = await freshDatabase();
    webhooks = fakeWebhooks();
    receiver = await startReceiver();
    webhooks.add(receiver.url);
  });
  afterEach(async () => {
    await Promise.all([publisher.close(), worker.close()]);
    await receiver.stop();
    await database.drop();
  });

  it('is delivered by another process', async () => {
    await open({});

    expect(await waits()).to.have.length(3);
  });

  it('is delivered with change streams long before a sweep would find it', async () => {
    await open({ changeStreams: true, sweepInterval: 8_000 });
    const [, ...others] = await waits();

    // published right after a delivery, each would wait for a whole interval; how quick it is belongs to the benchmark
    expect(Math.max(...others)).to.be.below(4_000);
  });
});
