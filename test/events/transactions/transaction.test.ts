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

  it('stores the event exactly when the transaction commits', async () => {
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

  it('starts only what the last run published when the database asks for another', async () => {
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

  it('publishes the same key twice in two transactions only once, and aborts neither', async () => {
    const publishOnce = () =>
      database.connection.transaction(
        (session) => events.publish(payment, { session, idempotencyKey: 'order-1' }),
        majority,
      );
    await publishOnce();
    await publishOnce();

    expect(await events.stored()).to.have.length(1);
  });

  it('takes a transaction that leaves the write concern to a server whose default is majority', async () => {
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

  it('publishes at once under a session that is in no transaction', async () => {
    const session = await database.connection.startSession();
    const { id } = await events.publish(payment, { session });
    await session.endSession();

    expect(events.fannedOut).to.deep.equal([id]);
  });
});
