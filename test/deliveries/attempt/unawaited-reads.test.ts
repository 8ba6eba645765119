import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { Attempts, startLimit } from '../../../src/deliveries/attempt.ts';
import { createDeliveryModel } from '../../../src/deliveries/model.ts';
import { createFindRecoverable } from '../../../src/deliveries/recoveries.ts';
import { createEventModel } from '../../../src/events/model.ts';
import { freshUri } from '../../support/mongo.ts';
import { claimsOf, claimTerms, noJobs } from '../claims-of.ts';
import { noRateLimits } from '../delivery-services.ts';
import { pendingDelivery } from './pending-delivery.ts';

describe('A read that fails while no code waits for it', () => {
  const appName = `unawaited-reads-${process.pid}`;
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  let connection: Connection;
  let listeners: NodeJS.UnhandledRejectionListener[];

  function failing(mode: 'off' | 'alwaysOn', data: object = {}): Promise<unknown> {
    const command = { configureFailPoint: 'failCommand', mode, data: { appName, ...data } };
    return connection.getClient().db('admin').command(command);
  }

  before(async () => {
    connection = await mongoose.createConnection(freshUri(), { appName }).asPromise();
    listeners = process.listeners('unhandledRejection');
    process.removeAllListeners('unhandledRejection').on('unhandledRejection', note);
  });
  afterEach(async () => {
    await failing('off');
    expect(unhandled.splice(0)).to.deep.equal([]);
  });
  after(async () => {
    process.removeAllListeners('unhandledRejection');
    for (const listener of listeners) process.on('unhandledRejection', listener);
    await connection.dropDatabase();
    await connection.close();
  });

  it('does not end a process that counts what a recovery will find', async () => {
    const deliveries = createDeliveryModel(connection, 'gateway_');
    const events = createEventModel(connection, 'gateway_');
    await Promise.all([deliveries.createIndexes(), events.createIndexes()]);
    const since = new Date(Date.now() - 60_000);
    const wanted = { userId: 'usr_1', webhookId: 'wh_1', states: ['failed', 'skipped'] as const, since };
    await failing('alwaysOn', { failCommands: ['aggregate'], errorCode: 11_600 });
    const { count } = createFindRecoverable(deliveries, events);
    const error = await count({ ...wanted, until: new Date() }, 10).catch((reason: unknown) => reason);
    expect(error).to.include({ code: 11_600 });
    await new Promise((resolve) => setImmediate(resolve));
  });

  it('does not end a process that records an attempt whose workers died', async () => {
    const deliveries = createDeliveryModel(connection, 'gateway_');
    const { _id } = await deliveries.create({ ...pendingDelivery('dlv_1'), starts: startLimit });
    const unreadable = () => Promise.reject(new Error('it cannot be read'));
    const attempts = new Attempts({
      ...claimTerms(deliveries),
      claims: claimsOf(deliveries),
      send: () => expect.fail('it was sent'),
      target: unreadable,
      body: unreadable,
      sendRates: noRateLimits,
      jobs: noJobs,
      retryDelays: [60_000],
      userAgent: 'test',
    });
    const ref = { deliveryId: _id, webhookId: 'wh_1', userId: 'usr_1', attempt: 1 };
    await attempts.make(ref, attempts.prepare(ref).prepared);
    const [attempt] = (await deliveries.findById(_id).lean())?.attempts ?? [];
    expect(attempt).to.include({ code: 'worker_crashed' });
  });
});
