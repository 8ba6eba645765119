import mongoose from 'mongoose';
import { createModelGateway } from '../../../src/index.ts';
import { silentLogger } from '../../support/logger.ts';

/** A process with a gateway and its workers, for tests of several; publishes what its parent sends. */
const { uri, options } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}');
const connection = await mongoose.createConnection(uri).asPromise();
const gateway = await createModelGateway({
  mongo: connection,
  ...options,
  logger: { ...silentLogger, error: console.error },
});
await gateway.start();
process.on('message', (message: 'close') => {
  if (message !== 'close') return;
  void gateway.close().then(async () => {
    await connection.close();
    process.disconnect();
  });
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
