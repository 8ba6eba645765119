import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { freshUri } from '../support/mongo.ts';
import { payment, rejection, startEvents, type TestEvents } from './harness.ts';

describe('publish, when the database does not confirm the write', () => {
  const appName = `unconfirmed-${process.pid}`;
  let connection: Connection;
  let events: TestEvents;

  before(async () => {
    connection = await mongoose.createConnection(freshUri(), { appName }).asPromise();
    events = await startEvents(connection);
  });
  after(async () => {
    await connection.dropDatabase();
    await connection.close();
  });
  beforeEach(() => events.events.deleteMany({}));
  afterEach(() => failing('off', {}));

  function failing(mode: 'off' | { times: number }, data: object) {
    const failCommands = ['insert', 'findAndModify'];
    return connection
      .getClient()
      .db('admin')
      .command({ configureFailPoint: 'failCommand', mode, data: { appName, failCommands, ...data } });
  }

  it('retries once by itself, and makes one event', async () => {
    await failing({ times: 1 }, { closeConnection: true });
    const { id } = await events.publish(payment);

    expect((await events.stored()).map(({ _id }) => _id)).to.deep.equal([id]);
  });

  const faults: [string, object][] = [
    ['the connection breaks twice', { closeConnection: true }],
    ['there is no primary, twice', { errorCode: 10_107, errorLabels: ['RetryableWriteError'] }],
    [
      'the majority does not acknowledge in time, twice',
      { writeConcernError: { code: 64, errmsg: 'waiting for replication timed out' } },
    ],
  ];
  for (const [what, data] of faults) {
    it(`fails with the event id and the key when ${what}; publishing again with the key makes no second event`, async () => {
      await failing({ times: 2 }, data);
      const { code, details } = await rejection(events.publish(payment));
      const { eventId, idempotencyKey } = details as { eventId: string; idempotencyKey: string };
      await failing('off', {});
      const again = await events.publish(payment, { idempotencyKey });
      const stored = await events.stored();

      expect(code).to.equal('publish_unconfirmed');
      expect(eventId).to.match(/^evt_/);
      expect(stored.map(({ _id }) => _id)).to.deep.equal([again.id]);
    });
  }

  it('passes on an error after which nothing can have been stored', async () => {
    await failing({ times: 1 }, { errorCode: 13 });
    const error = await events.publish(payment).catch((reason) => reason);

    expect(error.code).to.equal(13);
  });

  it('leaves errors in a caller’s transaction to the driver, which runs it again', async () => {
    await failing({ times: 1 }, { closeConnection: true });
    await connection.transaction((session) => events.publish(payment, { session }));

    expect(await events.stored()).to.have.length(1);
  });
});
