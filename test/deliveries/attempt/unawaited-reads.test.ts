import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { openDeliveries } from './harness.ts';
import { pendingDelivery } from './pending-delivery.ts';

describe('A read that fails while no code waits for it', () => {
  const appName = `unawaited-reads-${process.pid}`;
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  let connection: Connection;
  let listeners: NodeJS.UnhandledRejectionListener[];

  function failing(mode: 'off' | 'alwaysOn' | { skip: number }, data: object = {}): Promise<unknown> {
    const command = { configureFailPoint: 'failCommand', mode, data: { appName, ...data } };
    return connection.getClient().db('admin').command(command);
  }

  before(async () => {
    connection = await mongoose.createConnection(freshUri(), { appName, monitorCommands: true }).asPromise();
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
    const { deliveries, recoverable } = openDeliveries(connection);
    await Promise.all([deliveries.createIndexes(), connection.createCollection('gateway_events')]);
    const since = new Date(Date.now() - 60_000);
    const wanted = { userId: 'usr_1', webhookId: 'wh_1', states: ['failed', 'skipped'] as const, since };
    const failed: string[] = [];
    connection.getClient().on('commandFailed', ({ commandName }) => failed.push(commandName));
    // after the read of the types, both counts fail, with a code at which the driver neither tries again nor looks for its server
    await failing({ skip: 1 }, { failCommands: ['aggregate'], errorCode: 11_601 });
    const { count } = recoverable();
    const error = await count({ ...wanted, until: new Date() }, 10).catch((reason: unknown) => reason);
    expect(error).to.include({ code: 11_601 });
    await until(() => failed.length === 2);
    expect(failed).to.deep.equal(['aggregate', 'aggregate']);
    await new Promise((resolve) => setImmediate(resolve));
  });

  it('does not end a process that records an attempt whose workers died', async () => {
    const { deliveries, scheduled } = openDeliveries(connection);
    const { _id } = await deliveries.create({ ...pendingDelivery('dlv_1'), starts: 4 });
    const unreadable = () => Promise.reject(new Error('it cannot be read'));
    const make = scheduled({
      send: () => expect.fail('it was sent'),
      target: unreadable,
      body: unreadable,
      retryDelays: [60_000],
    });
    await make(_id);
    const [attempt] = (await deliveries.findById(_id).lean())?.attempts ?? [];
    expect(attempt).to.include({ code: 'worker_crashed' });
  });
});
