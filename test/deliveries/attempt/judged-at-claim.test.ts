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

describe('A webhook that changes while attempts are pending', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let webhooks: FakeWebhooks;
  let gateway: DeliveryServices;
  let receiver: TestReceiver;
  let webhookId: string;
  /** Ends the wait of the second attempt, before it reads its webhook. */
  let judge: () => void;
  /** When the second attempt asked for its webhook. */
  let judgedAt: number;
  const current = () => webhooks.webhooks.get(webhookId) ?? expect.fail('no webhook');

  beforeEach(async () => {
    database = await freshDatabase();
    webhooks = fakeWebhooks();
    receiver = await startReceiver(500, 200);
    webhookId = webhooks.add(receiver.url);
    const { forDelivery } = webhooks;
    const mayJudge = new Promise<void>((resolve) => {
      judge = resolve;
    });
    webhooks.forDelivery = async (id) => {
      if (receiver.received.length > 0) {
        judgedAt = Date.now();
        await mayJudge;
      }
      return forDelivery(id);
    };
    gateway = await startDeliveryServices(database.connection, webhooks, { retryDelays: [700] });
    await gateway.start();
  });
  afterEach(async () => {
    await gateway.close();
    await receiver.stop();
    await database.drop();
  });

  async function afterFirstAttempt(change: () => void | Promise<void>) {
    const { id } = await gateway.publish(payment);
    const { dueAt } = await gateway.delivery(id, ({ attempt }) => attempt === 2);
    await change();
    judge();
    const delivery = await gateway.delivery(id, ended);
    expect(judgedAt, 'when it was due, not before').to.be.at.least(Number(dueAt));
    return delivery;
  }

  const changes: [string, string, () => void][] = [
    ['paused', 'webhook_inactive', () => Object.assign(current(), { active: false })],
    ['unsubscribed', 'unsubscribed', () => Object.assign(current(), { events: ['credits.low'] })],
    ['deleted', 'webhook_deleted', () => webhooks.webhooks.delete(webhookId)],
  ];
  for (const [what, reason, change] of changes) {
    it(`gets no more attempts when it was ${what}, and its deliveries are canceled`, async () => {
      const delivery = await afterFirstAttempt(change);

      expect([delivery.state, delivery.reason]).to.deep.equal(['canceled', reason]);
      expect(delivery.attempts).to.have.length(1);
      expect(receiver.received).to.have.length(1);
    });
  }

  it('gets its deliveries when it was resumed before they were due', async () => {
    const delivery = await afterFirstAttempt(async () => {
      Object.assign(current(), { active: false });
      await new Promise((resolve) => setTimeout(resolve, 100));
      Object.assign(current(), { active: true });
    });

    expect(delivery.state).to.equal('delivered');
  });

  it('gets a test event once, marked, even of a type it is not subscribed to', async () => {
    const { id } = await gateway.publishTest({ userId: 'usr_1', type: 'credits.low', webhookId });
    const delivery = await gateway.delivery(id, ended);

    expect([delivery.state, delivery.attempts.length, delivery.maxAttempts]).to.deep.equal(['failed', 1, 1]);
    expect(receiver.received[0]?.headers['x-service-test']).to.equal('true');
  });

  it('gets no events published while it was inactive, which are recorded as skipped', async () => {
    Object.assign(current(), { active: false });
    const { id } = await gateway.publish(payment);

    expect(await gateway.events.findById(id).lean()).to.deep.include({ targets: [], skipped: [webhookId] });
    expect(await gateway.ofEvent(id)).to.deep.equal([]);
  });
});
