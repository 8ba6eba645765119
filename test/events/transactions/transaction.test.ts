import { expect } from 'chai';
import mongoose from 'mongoose';
import { freshDatabase } from '../../support/mongo.ts';
import { payment, rejection, startEvents, type TestEvents } from '../harness.ts';

const majority = { writeConcern: { w: 'majority' } } as const;

describe('publishing with the host’s own writes', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let events: TestEvents;

  beforeEach(async () => {
    database = await freshDatabase();
    events = await startEvents(database.connection);
    await database.connection.createCollection('orders');
  });
  afterEach(() => database.drop());

  it('stores the event when the transaction commits, and not before', async () => {
    await database.connection.transaction(async (session) => {
      await database.connection.collection('orders').insertOne({ paid: true }, { session });
      await events.publish(payment, { session });
      expect(await events.stored()).to.have.length(0);
    }, majority);

    expect(await events.stored()).to.have.length(1);
    expect(events.fannedOut, 'a foreign session is left to the sweep').to.have.length(0);
  });

  it('stores nothing when the transaction aborts', async () => {
    const aborted = database.connection.transaction(async (session) => {
      await events.publish(payment, { session });
      throw new Error('the order was refused');
    }, majority);

    await aborted.then(
      () => expect.fail('should abort'),
      (error: Error) => expect(error.message).to.equal('the order was refused'),
    );
    expect(await events.stored()).to.have.length(0);
  });

  it('starts the deliveries right after the commit of gateway.transaction, and not before', async () => {
    const result = await events.transaction(async (session) => {
      await events.publish(payment, { session });
      expect(events.fannedOut).to.have.length(0);
      return 'done';
    });

    expect(result).to.equal('done');
    expect(events.fannedOut, 'a sweep takes it at once').to.deep.equal(['woken']);
    expect(await events.stored()).to.have.length(1);
  });

  it('publishes only the event of the last run when the database makes a transaction run again', async () => {
    let runs = 0;
    await events.transaction(async (session) => {
      runs += 1;
      await events.publish(payment, { session });
      if (runs > 1) return;
      const again = new Error('write conflict') as Error & { hasErrorLabel: (label: string) => boolean };
      const { mongo } = await import('mongoose');
      const transient = new mongo.MongoError(again.message);
      transient.addErrorLabel('TransientTransactionError');
      throw transient;
    });

    const stored = await events.stored();
    expect(runs).to.equal(2);
    expect(stored).to.have.length(1);
    expect(events.fannedOut).to.deep.equal(['woken']);
  });

  it('publishes one event when two transactions use the same key, and aborts neither', async () => {
    const publishOnce = () =>
      database.connection.transaction(
        (session) => events.publish(payment, { session, idempotencyKey: 'order-1' }),
        majority,
      );
    await publishOnce();
    await publishOnce();

    expect(await events.stored()).to.have.length(1);
  });

  it('accepts a transaction without a write concern when the default of the server is majority', async () => {
    await database.connection.transaction((session) => events.publish(payment, { session }));

    expect(await events.stored()).to.have.length(1);
  });

  for (const writeConcern of [{ w: 1 }, { w: 'majority', j: false }] as const) {
    it(`refuses a transaction with ${JSON.stringify(writeConcern)}, which could lose the event`, async () => {
      const session = await database.connection.startSession();
      session.startTransaction({ writeConcern });
      const { code, message } = await rejection(events.publish(payment, { session }));
      await session.abortTransaction();
      await session.endSession();

      expect(code).to.equal('weak_write_concern');
      expect(message).to.include("writeConcern: { w: 'majority' }");
    });
  }

  it('refuses a session of another connection', async () => {
    const other = await mongoose.createConnection(database.uri).asPromise();
    try {
      const refused = other.transaction((session) => events.publish(payment, { session }), majority);
      const { code, message } = await rejection(refused);
      expect([code, message]).to.deep.equal([
        'invalid_value',
        'session: must be of the connection that the option mongo names; start it with connection.startSession()',
      ]);
    } finally {
      await other.close();
    }
  });

  it('publishes at once in a session without a transaction', async () => {
    const session = await database.connection.startSession();
    const { id } = await events.publish(payment, { session });
    await session.endSession();

    expect(events.fannedOut).to.deep.equal([id]);
  });
});
