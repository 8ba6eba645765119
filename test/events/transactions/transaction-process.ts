import { once } from 'node:events';
import mongoose from 'mongoose';
import { startEvents } from '../harness.ts';

/** A process that stays in the middle of a transaction, and goes on when it gets a message: PROCESS_CONFIG says in which database. */
const { uri, lease } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}');
const connection = await mongoose.createConnection(uri).asPromise();
const { transaction } = await startEvents(connection, lease);
process.on('disconnect', () => process.exit(1));
await transaction(async (session) => {
  const spend = () =>
    connection.collection('accounts').updateOne({ name: 'usr_1' }, { $inc: { balance: -5 } }, { session });
  await spend();
  process.send?.('in the middle');
  await once(process, 'message');
  await spend();
});
