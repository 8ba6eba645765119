import mongoose from 'mongoose';
import { startEvents } from './harness.ts';

/** A process that stays in the middle of a transaction: `tsx transaction-process.ts <MongoDB URI> <lease>`. */
const [, , uri = '', lease] = process.argv;
const connection = await mongoose.createConnection(uri).asPromise();
const { transaction } = await startEvents(connection, Number(lease));
process.on('disconnect', () => process.exit(1));
await transaction(async (session) => {
  await connection.collection('accounts').updateOne({ name: 'usr_1' }, { $inc: { balance: -5 } }, { session });
  process.send?.('in the middle');
  await new Promise(() => {});
});
