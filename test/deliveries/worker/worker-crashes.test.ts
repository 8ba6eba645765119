import { expect } from 'chai';
import { freshDatabase } from '../../support/mongo.ts';
import {
  type DeliveryServices,
  ended,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
} from '../delivery-services.ts';
import { startReceiver, type TestReceiver } from '../receiver.ts';

/** How often an attempt may be started without an end. */
const startLimit = 4;

describe('An attempt whose workers die', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let webhooks: FakeWebhooks;
  let gateway: DeliveryServices;
  let receiver: TestReceiver;

  beforeEach(async () => {
    database = await freshDatabase();
    webhooks = fakeWebhooks();
    receiver = await startReceiver();
    webhooks.add(receiver.url);
    gateway = await startDeliveryServices(database.connection, webhooks, { sweepInterval: 50 });
  });
  afterEach(async () => {
    await gateway.close();
    await receiver.stop();
    await database.drop();
  });

  /** As a worker leaves it that was killed so many times after it had claimed the attempt. */
  async function startedBefore(starts: number) {
    const { id } = await gateway.publishStored(payment);
    const lease = { owner: 'wrk_dead', token: 'gone', startedAt: new Date() };
    await gateway.deliveries.updateOne({ eventId: id }, { starts, lease, claimableAt: new Date(Date.now() - 10) });
    await gateway.start();
    return gateway.delivery(id, ended);
  }

  it('is made again under the same number when its lease has lapsed', async () => {
    const { state, attempts } = await startedBefore(startLimit - 1);

    expect([state, attempts.map(({ number }) => number)]).to.deep.equal(['delivered', [1]]);
  });

  it(`counts as failed after ${startLimit} starts, so that one event cannot crash workers for ever`, async () => {
    const { state, attempts } = await startedBefore(startLimit);

    expect(attempts.map(({ number, code }) => [number, code ?? null])).to.deep.equal([
      [1, 'worker_crashed'],
      [2, null],
    ]);
    expect(state).to.equal('delivered');
    expect(receiver.received).to.have.length(1);
  });
});

describe('An attempt the gateway cannot make', () => {
  it('is neither counted nor lost: it is made once the gateway can make it', async () => {
    const database = await freshDatabase();
    const webhooks = fakeWebhooks();
    const receiver = await startReceiver();
    webhooks.add(receiver.url);
    let failures = 1;
    const { forDelivery } = webhooks;
    webhooks.forDelivery = async (id) => {
      failures -= 1;
      if (failures >= 0) throw new Error('the secret cannot be read');
      return forDelivery(id);
    };
    const gateway = await startDeliveryServices(database.connection, webhooks);
    await gateway.start();
    const { id } = await gateway.publish(payment);
    const { state, attempts } = await gateway.delivery(id, ended);
    await gateway.close();
    await receiver.stop();
    await database.drop();

    expect([state, attempts.map(({ number }) => number)]).to.deep.equal(['delivered', [1]]);
  });
});
