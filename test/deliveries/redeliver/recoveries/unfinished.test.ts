import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { freshDatabase, uriOf } from '../../../support/mongo.ts';
import { eventually } from '../../../support/until.ts';
import {
  type DeliveryServices,
  ended,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
} from '../../delivery-services.ts';
import { hang, startReceiver, type TestReceiver } from '../../receiver.ts';

describe('A recovery of an event whose fan-out is not done', () => {
  const appName = 'worker';
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let ofWorker: Connection;
  let webhooks: FakeWebhooks;
  let receiver: TestReceiver;
  /** Makes no attempts but those of recoveries. */
  let publisher: DeliveryServices;
  let worker: DeliveryServices;
  let missedBy: string;
  let eventId: string;

  beforeEach(async () => {
    database = await freshDatabase();
    ofWorker = await mongoose.createConnection(uriOf(database.connection.name), { appName }).asPromise();
    receiver = await startReceiver();
    webhooks = fakeWebhooks();
    webhooks.add(`${receiver.url}/active`);
    missedBy = webhooks.add(`${receiver.url}/missed`, { active: false });
    publisher = await startDeliveryServices(database.connection, webhooks);
    eventId = (await publisher.publish(payment)).id;
    Object.assign(webhooks.webhooks.get(missedBy) ?? {}, { active: true });
  });
  afterEach(async () => {
    // before: nobody waits for a receiver that hangs
    await receiver.stop();
    await Promise.all([worker.close(), publisher.close()]);
    await ofWorker.close();
    await database.drop();
  });

  const recover = () => publisher.redeliver.events({ _id: 'rec_1', webhookId: missedBy }, eventId);
  const event = () => publisher.events.findById(eventId).lean();
  const taken = () => eventually(event, (found) => found?.fanOutLeases === 1);
  const fannedOut = () => eventually(event, (found) => found?.fanOut === 'done');

  async function expectEachSentOnce(): Promise<void> {
    await fannedOut();
    await eventually(
      () => publisher.ofEvent(eventId),
      (deliveries) => deliveries.length === 2 && deliveries.every(ended),
    );
    expect(receiver.received.map(({ path }) => path).sort()).to.deep.equal(['/hook/active', '/hook/missed']);
  }

  it('sends it once even if a worker has just taken the event, and reads it after the recovery', async () => {
    const admin = database.connection.getClient().db('admin');
    const namespace = `${database.connection.name}.gateway_events`;
    const data = { appName, namespace, failCommands: ['find'], blockConnection: true, blockTimeMS: 1_000 };
    worker = await startDeliveryServices(ofWorker, webhooks);
    await admin.command({ configureFailPoint: 'failCommand', mode: 'alwaysOn', data });
    try {
      await worker.start();
      await taken();
      expect(await recover()).to.equal('delivered');
    } finally {
      await admin.command({ configureFailPoint: 'failCommand', mode: 'off' });
    }
    await expectEachSentOnce();
  });

  it('sends it once even if the worker finds the webhook itself after a primary was replaced', async () => {
    let goOn = () => {};
    const recovered = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    let asked = false;
    worker = await startDeliveryServices(ofWorker, {
      ...webhooks,
      async confirmedSubscribers(...given) {
        asked = true;
        await recovered;
        return webhooks.confirmedSubscribers(...given);
      },
    });
    await publisher.events.updateOne({ _id: eventId }, { lookupElection: '7fffffff0000000000000000' });
    await worker.start();
    await eventually(async () => asked, Boolean);
    expect(await recover()).to.equal('delivered');
    goOn();
    await expectEachSentOnce();
  });

  it('does not count as a start of attempts to other webhooks', async () => {
    receiver.answers(200, hang);
    expect(await recover()).to.equal('delivered');
    worker = await startDeliveryServices(ofWorker, webhooks);
    await worker.start();
    await receiver.count(2);
    const [inFlight] = await eventually(
      async () => (await publisher.ofEvent(eventId)).filter(({ lease }) => lease !== null),
      ({ length }) => length === 1,
    );

    expect(inFlight).to.include({ starts: 1 });
  });
});
