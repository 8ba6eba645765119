import { expect } from 'chai';
import type { ModelGateway } from '../../../src/index.ts';
import { watchedDatabase } from '../../support/commands.ts';
import { createGateway } from '../../support/gateway.ts';
import { payment } from '../harness.ts';

const accounts = 3;
const eventCount = 60;

describe('Many publications that are repeated at the same moment', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let gateway: ModelGateway;

  before(async () => {
    database = await watchedDatabase();
    // nobody fans out what it publishes
    gateway = await createGateway({
      mongo: database.connection,
    });
    for (let i = 0; i < accounts; i += 1) {
      const webhook = { url: 'http://127.0.0.1:9', events: [payment.type], secret: 'long-enough' };
      await gateway.webhooks.create(`usr_${i}`, webhook);
    }
  });
  after(async () => {
    await gateway.close();
    await database.drop();
  });

  const publishAll = () =>
    Promise.all(
      Array.from({ length: eventCount }, (_, i) => {
        const event = { ...payment, userId: `usr_${i % accounts}` };
        return gateway.publish(event, { idempotencyKey: `key-${Math.floor(i / accounts)}` });
      }),
    );

  it('return the stored events, with a few database commands for all of them', async () => {
    const first = await publishAll();
    database.forget();
    const again = await publishAll();

    expect(again).to.deep.equal(first);
    const events = database.connection.collection('gateway_events');
    expect(await events.countDocuments()).to.equal(eventCount);
    const commands = database.commandsTo('gateway_events').map(({ name }) => name);
    expect(commands).to.include('insert').and.include('find');
    expect(commands.length).to.be.below(10);
    expect(database.commandsTo('gateway_webhooks').length, 'reads of who is subscribed').to.be.below(10);
  });
});
