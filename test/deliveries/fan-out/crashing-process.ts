import mongoose from 'mongoose';
import { createModelGateway } from '../../../src/index.ts';
import { armCrash } from '../../faults/workers/crash-points.ts';
import { silentLogger } from '../../support/logger.ts';

/** A process with a gateway and its workers that publishes events and may die at a point: PROCESS_CONFIG says which. */
const { uri, options, crash, events = [] } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}');
const connection = await mongoose.createConnection(uri, { monitorCommands: true }).asPromise();
const gateway = await createModelGateway({
  mongo: connection,
  ...options,
  logger: { ...silentLogger, error: console.error },
});
await gateway.start();
process.on('disconnect', () => process.exit());
process.on('message', (message: 'close' | 'publish') => {
  if (message === 'publish') return void Promise.all(events.map(gateway.publish));
  return void gateway.close().then(async () => {
    await connection.close();
    process.disconnect();
  });
});
if (crash) armCrash(connection, crash);
process.send?.('ready');
