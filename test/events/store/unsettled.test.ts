import { expect } from 'chai';
import type { ModelGateway } from '../../../src/index.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { watchedDatabase } from '../../support/commands.ts';
import { createGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { payment } from '../harness.ts';

const earlier = '7fffffff0000000000000000';

describe('The subscriber lookup of an event', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let gateway: ModelGateway;
  let receiver: TestReceiver;

  beforeEach(async () => {
    database = await watchedDatabase();
    receiver = await startReceiver();
    gateway = await createGateway({
      mongo: database.connection,
    });
    database.forget();
  });
  afterEach(async () => {
    await gateway.close();
    await receiver.stop();
    await database.drop();
  });

  const register = () =>
    gateway.webhooks.create('usr_1', { url: receiver.url, events: [payment.type], secret: 'a secret of the receiver' });
  const events = () => database.connection.collection<{ _id: string; lookupElection?: string }>('gateway_events');
  const confirmedLookUps = () =>
    database.commandsTo('gateway_webhooks').filter(({ command }) => JSON.stringify(command).includes('linearizable'));

  /** As a publisher leaves it that dies between the write of the event and its proof. */
  async function leaveUnsettled(_id: string): Promise<void> {
    await events().updateOne({ _id }, { $set: { fanOut: 'pending', lookupElection: earlier } });
  }

  it('is confirmed by the answer to the write, with no further command', async () => {
    await gateway.start();
    await gateway.publish(payment);
    await register();
    await gateway.publish(payment);
    await gateway.publish(payment);

    await until(async () => (await events().countDocuments({ lookupElection: { $exists: true } })) === 0);
    expect(await events().countDocuments({ fanOut: 'done' })).to.equal(3);
    expect(confirmedLookUps()).to.have.length(0);
  });

  it('is confirmed by the answer to the write that claims the event, when its publisher does not fan it out', async () => {
    await register();
    await gateway.publish(payment);
    expect(await events().countDocuments({ fanOut: 'pending', lookupElection: { $exists: true } })).to.equal(1);
    await gateway.start();

    expect(await receiver.count(1)).to.have.length(1);
    await until(async () => (await events().countDocuments({ lookupElection: { $exists: true } })) === 0);
    expect(confirmedLookUps()).to.have.length(0);
  });

  it('is made before the write by a process that does not fan the event out, for another one may do that at once', async () => {
    await register();
    for (let i = 0; i < 3; i += 1) await gateway.publish(payment);

    const stored = await events().find().toArray();
    expect(stored).to.have.length(3);
    for (const { lookupElection } of stored) expect(lookupElection).to.match(/^[0-9a-f]{24}$/);
  });

  it('is corrected even if an earlier correction was made only in part', async () => {
    const webhook = await register();
    const { id, idempotencyKey } = await gateway.publish(payment);
    await leaveUnsettled(id);
    await events().updateOne({ _id: id }, { $set: { skipped: [webhook.id] } });
    await gateway.publish(payment, { idempotencyKey });

    expect(await events().findOne({ _id: id })).to.deep.include({ targets: [webhook.id], skipped: [] });
  });

  it('is repeated when the event is published again before it was confirmed', async () => {
    const { id, idempotencyKey } = await gateway.publish(payment);
    await leaveUnsettled(id);
    const webhook = await register();
    const again = await gateway.publish(payment, { idempotencyKey });

    expect(again.id).to.equal(id);
    expect(confirmedLookUps()).to.have.length(1);
    await gateway.start();
    await receiver.count(1);
    expect(await events().findOne({ _id: id })).to.deep.include({ targets: [webhook.id] });
  });

  it('is repeated when the event is published again in a transaction', async () => {
    const { id, idempotencyKey } = await gateway.publish(payment);
    await leaveUnsettled(id);
    const webhook = await register();
    await gateway.transaction((session) => gateway.publish(payment, { session, idempotencyKey }));
    await gateway.start();

    await until(async () => (await events().countDocuments({ _id: id, fanOut: 'done' })) !== 0);
    expect(await events().findOne({ _id: id })).to.deep.include({ targets: [webhook.id] });
  });

  it('is repeated by the sweep when the publisher died before it was confirmed', async () => {
    const { id } = await gateway.publish(payment);
    await leaveUnsettled(id);
    await register();
    await gateway.start();

    expect(await receiver.count(1)).to.have.length(1);
    await until(
      async () =>
        (await events().countDocuments({ _id: id, fanOut: 'done', lookupElection: { $exists: false } })) !== 0,
    );
  });
});
