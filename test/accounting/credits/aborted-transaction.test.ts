import { expect } from 'chai';
import { startCredits } from './harness.ts';

describe('A write of the ledger in a transaction that has been aborted', () => {
  it('is rejected, and not made outside of the transaction', async () => {
    const { connection, events, newService, ledgerOf, drop } = await startCredits();
    const service = newService();
    const credit = (paymentId: string) => service.credit({ userId: 'usr_1', credits: 5, paymentId }, session);
    const session = connection.getClient().startSession();
    try {
      session.startTransaction();
      await credit('first');
      await session.abortTransaction();
      const [outcome] = await Promise.allSettled([credit('second')]);
      expect(outcome?.status).to.equal('rejected');
      const accounts = await connection.collection('gateway_credit_accounts').countDocuments();
      expect([await ledgerOf('usr_1'), accounts, await events.stored()]).to.deep.equal([[], 0, []]);
    } finally {
      await session.endSession();
      await drop();
    }
  });
});
