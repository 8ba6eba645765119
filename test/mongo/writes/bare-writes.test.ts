import { expect } from 'chai';
import { createEventModel } from '../../../src/events/model.ts';
import { bareWrites } from '../../../src/mongo/writes.ts';
import { freshDatabase } from '../../support/mongo.ts';

describe('A write in a transaction that has been aborted', () => {
  it('is rejected, and not made outside of the transaction', async () => {
    const { connection, drop } = await freshDatabase();
    const model = createEventModel(connection, 'gateway_');
    await model.createCollection();
    const writes = bareWrites(model);
    const session = connection.getClient().startSession();
    try {
      session.startTransaction();
      await writes.insert([{ _id: 'first' }], session);
      await session.abortTransaction();
      const [outcome] = await Promise.allSettled([writes.insert([{ _id: 'second' }], session)]);
      expect(outcome?.status).to.equal('rejected');
      expect(await model.countDocuments()).to.equal(0);
    } finally {
      await session.endSession();
      await drop();
    }
  });
});
