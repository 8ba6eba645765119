import mongoose from 'mongoose';
import { openLedger } from './ledger.ts';

/** A process that does nothing but count, until it is killed: PROCESS_CONFIG says with which database. */
const { uri } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}');
const connection = await mongoose.createConnection(uri).asPromise();
const ledger = await openLedger(connection);
const count = ledger.counter({ perUser: { unit: 'requests', daily: 1_000 } }, 7);
process.on('disconnect', () => process.exit(1));
process.send?.('ready');
// two processes that make one counter at once conflict: the one that loses tries again
for (;;) await count().catch(() => {});
