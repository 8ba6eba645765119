import { expect } from 'chai';
import { freshDatabase } from '../support/mongo.ts';
import {
  type DeliveryServices,
  ended,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
} from './delivery-services.ts';
import { startReceiver, type TestReceiver } from './receiver.ts';

describe('Retention', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let webhooks: FakeWebhooks;
  let gateway: DeliveryServices;
  let receiver: TestReceiver;

  beforeEach(async () => {
    database = await freshDatabase();
    webhooks = fakeWebhooks();
    receiver = await startReceiver();
    gateway = await startDeliveryServices(database.connection, webhooks, { retentionDays: 2 });
  });
  afterEach(async () => {
    await gateway.close();
    await receiver.stop();
    await database.drop();
  });

  const pass = (retention: number) => gateway.expire(retention);

  /** The pass over events, as if they were all older than the retention. */
  const passLater = () => pass(-60_000);

  it('lets a delivery expire the configured days after it has ended', async () => {
    webhooks.add(receiver.url);
    await gateway.start();
    const { id } = await gateway.publish(payment);
    const { endedAt, expiresAt } = await gateway.delivery(id, ended);

    expect(Number(expiresAt) - Number(endedAt)).to.equal(2 * 86_400_000);
  });

  it('never lets an event expire that still has a delivery', async () => {
    webhooks.add(receiver.url);
    const { id } = await gateway.publishStored(payment);
    await passLater();

    expect(await gateway.events.findById(id).lean()).not.to.have.property('expiresAt');
    expect((await gateway.ofEvent(id))[0]).not.to.have.property('expiresAt');
  });

  it('never lets an event expire whose deliveries are not stored yet', async () => {
    webhooks.add(receiver.url);
    const { id } = await gateway.publish(payment);
    await passLater();

    expect(await gateway.events.findById(id).lean()).not.to.have.property('expiresAt');
  });

  it('lets an event expire that is old and has no delivery left', async () => {
    const { id } = await gateway.publish(payment);
    await gateway.events.updateOne({ _id: id }, { fanOut: 'done' });
    await passLater();

    expect(await gateway.events.findById(id).lean()).to.have.property('expiresAt');
  });

  it('keeps a young event, and with it its idempotency key', async () => {
    const { id } = await gateway.publish(payment);
    await pass(60_000);

    expect(await gateway.events.findById(id).lean()).not.to.have.property('expiresAt');
  });
});
