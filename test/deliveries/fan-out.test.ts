import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { freshUri } from '../support/mongo.ts';
import { ended, type FakeWebhooks, fakeWebhooks, payment, startGateway, type TestGateway } from './gateway.ts';
import { startReceiver, type TestReceiver } from './receiver.ts';

describe('A fan-out', () => {
  let connection: Connection;
  let webhooks: FakeWebhooks;
  let gateway: TestGateway;
  let receiver: TestReceiver;
  let writes: { collection: string; documents: number; leased: number }[];

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    webhooks = fakeWebhooks();
    gateway = await startGateway(connection, webhooks);
    receiver = await startReceiver();
    writes = [];
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      if (commandName !== 'insert') return;
      const documents = command.documents as { lease?: unknown }[];
      const leased = documents.filter(({ lease }) => lease).length;
      writes.push({ collection: command.insert, documents: documents.length, leased });
    });
  });
  afterEach(async () => {
    await gateway.close();
    await receiver.stop();
    await connection.dropDatabase();
    await connection.close();
  });

  const writesTo = (collection: string) => writes.filter((write) => write.collection === collection);

  it('to 10,000 webhooks is made in batches, from an event far below the 16 MB of a document', async function () {
    this.timeout(60_000);
    for (let i = 0; i < 10_000; i += 1) webhooks.add(receiver.url);
    const { id } = await gateway.publish(payment);
    const [event] = await gateway.events.aggregate([{ $project: { size: { $bsonSize: '$$ROOT' } } }]);

    expect(await gateway.deliveries.countDocuments({ eventId: id })).to.equal(10_000);
    expect(Math.max(...writesTo('gateway_deliveries').map(({ documents }) => documents))).to.be.at.most(500);
    expect(event.size).to.be.below(1_000_000);
  });

  it('of many events at the same moment is one write of events and one of deliveries', async () => {
    webhooks.add(receiver.url);
    await gateway.publish(payment);
    writes = [];
    await Promise.all(Array.from({ length: 40 }, () => gateway.publish(payment)));

    expect(writesTo('gateway_events').map(({ documents }) => documents)).to.deep.equal([40]);
    expect(writesTo('gateway_deliveries').length).to.be.at.most(2);
  });

  it('hands first attempts over, claimed from birth, and needs no job for them', async () => {
    webhooks.add(receiver.url);
    await gateway.start();
    const { id } = await gateway.publish(payment);
    const delivery = await gateway.delivery(id, ended);

    expect(delivery.state).to.equal('delivered');
    expect(delivery.attempts).to.have.length(1);
    expect(writesTo('gateway_deliveries')).to.deep.equal([
      { collection: 'gateway_deliveries', documents: 1, leased: 1 },
    ]);
    expect(writesTo('gateway_jobs')).to.deep.equal([]);
  });

  it('leaves what it cannot hand over to whoever has room, with a job for each', async () => {
    webhooks.add(receiver.url);
    await gateway.publish(payment);
    while (writesTo('gateway_jobs').length === 0) await new Promise((resolve) => setTimeout(resolve, 5));

    expect(writesTo('gateway_deliveries')[0]?.leased).to.equal(0);
    expect(writesTo('gateway_jobs')[0]?.documents).to.equal(1);
  });

  it('sends nothing to a webhook that was paused after the event had been accepted', async () => {
    const id = webhooks.add(receiver.url);
    await gateway.start();
    const { subscribers } = webhooks;
    webhooks.subscribers = async (...given) => {
      const found = await subscribers(...given);
      Object.assign(webhooks.webhooks.get(id) ?? {}, { active: false });
      return found;
    };
    gateway = await startGateway(connection, webhooks).then(async (paused) => {
      await gateway.close();
      await paused.start();
      return paused;
    });
    const event = await gateway.publish(payment);
    const delivery = await gateway.delivery(event.id, ended);

    expect([delivery.state, delivery.reason]).to.deep.equal(['canceled', 'webhook_inactive']);
    expect(receiver.received).to.have.length(0);
  });
});
