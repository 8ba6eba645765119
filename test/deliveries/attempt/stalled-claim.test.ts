import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { whileClockStands } from '../../support/clock.ts';
import { freshUri } from '../../support/mongo.ts';
import { fakeWebhooks } from '../delivery-services.ts';
import { type Deliveries, openDeliveries, type StoredDeliveries, sendWith } from './harness.ts';
import { pendingDelivery } from './pending-delivery.ts';

describe('An attempt whose claim was answered late', () => {
  const webhooks = fakeWebhooks();
  const webhookId = webhooks.add('http://127.0.0.1:9/');
  let connection: Connection;
  let processes: Deliveries;
  let deliveries: StoredDeliveries;

  before(async () => {
    connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    processes = openDeliveries(connection);
    ({ deliveries } = processes);
    await deliveries.createIndexes();
  });
  beforeEach(() => deliveries.deleteMany({}));
  after(async () => {
    await connection.dropDatabase();
    await connection.close();
  });

  /** Does this while no time passes but so much, until the database answers the next update. */
  function answeredAfter<T>(milliseconds: number, work: () => Promise<T>): Promise<T> {
    const client = connection.getClient();
    return whileClockStands((pass) => {
      client.on('commandSucceeded', function note({ commandName }) {
        if (commandName !== 'update') return;
        client.off('commandSucceeded', note);
        pass(milliseconds);
      });
      return work();
    }, performance);
  }

  /** Resolves with how often it was sent, and what is stored then. */
  async function makeAttempt(given: { readonly lease: number; readonly answerAfter: number }) {
    let sent = 0;
    await deliveries.create({ ...pendingDelivery('dlv_1'), webhookId });
    const make = processes.scheduled({
      lease: given.lease,
      send: sendWith({ status: 200, durationMs: 1, response: '' }, () => {
        sent += 1;
      }),
      target: webhooks.forDelivery,
    });
    await answeredAfter(given.answerAfter, () => make('dlv_1'));
    const { state, starts, lease, attempts: made } = await deliveries.findById('dlv_1').orFail().lean();
    return { sent, state, starts, lease, attempts: made.length };
  }

  const givenBack = { sent: 0, state: 'pending', starts: 0, lease: null, attempts: 0 };

  it('is released unsent, as another worker may have made it by then', async () => {
    expect(await makeAttempt({ lease: 600, answerAfter: 700 })).to.deep.equal(givenBack);
  });

  it('is released unsent when its lease might end before the request arrives', async () => {
    expect(await makeAttempt({ lease: 3_000, answerAfter: 2_600 })).to.deep.equal(givenBack);
  });

  it('is made when the answer came in time', async () => {
    const made = { sent: 1, state: 'delivered', starts: 0, lease: null, attempts: 1 };
    expect(await makeAttempt({ lease: 60_000, answerAfter: 0 })).to.deep.equal(made);
  });
});
