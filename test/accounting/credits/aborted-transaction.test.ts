import { expect } from 'chai';
import { Ledger } from '../../../src/accounting/ledger.ts';
import { createAccountModel, createLedgerModel } from '../../../src/accounting/model.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';

describe('A write of the ledger in a transaction that has been aborted', () => {
  it('is rejected, and not made outside of the transaction', async () => {
    const { connection, drop } = await freshDatabase();
    const accounts = createAccountModel(connection, 'gateway_');
    const entries = createLedgerModel(connection, 'gateway_');
    await Promise.all([accounts.createCollection(), entries.createCollection()]);
    const publish = async () => expect.fail('published');
    const deps = { accounts, ledger: entries, publish, lowThreshold: 0, initial: 0, logger: silentLogger };
    const ledger = new Ledger(deps);
    const topUp = (_id: string) => new Map([['usr_1', [{ _id, userId: 'usr_1', kind: 'top_up', amount: 5 } as const]]]);
    const session = connection.getClient().startSession();
    try {
      session.startTransaction();
      await ledger.book(topUp('first'), session);
      await session.abortTransaction();
      const [outcome] = await Promise.allSettled([ledger.book(topUp('second'), session)]);
      expect(outcome?.status).to.equal('rejected');
      expect([await entries.countDocuments(), await accounts.countDocuments()]).to.deep.equal([0, 0]);
    } finally {
      await session.endSession();
      await drop();
    }
  });
});
