import mongoose from 'mongoose';
import { openLedger } from './ledger.ts';

/** A process that does nothing but count, until it is killed: `tsx counting-process.ts <MongoDB URI>`. */
const connection = await mongoose.createConnection(process.argv[2] ?? '').asPromise();
const ledger = await openLedger(connection);
const count = ledger.counter({ perUser: { unit: 'requests', daily: 1_000 } }, 7);
process.on('disconnect', () => process.exit(1));
process.send?.('ready');
// two processes that make one counter at once conflict: the one that loses tries again
for (;;) await count().catch(() => {});
