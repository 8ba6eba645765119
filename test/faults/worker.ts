import mongoose from 'mongoose';
import { armCrash, type Crash } from './crash-points.ts';

/** What a worker process is told, as JSON in its first argument. */
export interface WorkerConfig {
  /** Where the package is loaded from: compiled, so that a new worker is there at once. */
  readonly entry: string;
  readonly uri: string;
  readonly secretKey: string;
  readonly retryDelays: readonly number[];
  readonly crash?: Crash;
}

/** What it is asked to publish, and what it answers. */
export interface PublishRequest {
  readonly serial: number;
  readonly idempotencyKey: string;
  readonly data: Record<string, unknown>;
}
export interface PublishReply {
  readonly serial: number;
  readonly eventId?: string;
  readonly error?: string;
}

const config = JSON.parse(process.argv[2] ?? '{}') as WorkerConfig;
const { createModelGateway, GatewayError } = (await import(config.entry)) as typeof import('../../src/index.ts');
const connection = await mongoose
  .createConnection(config.uri, { monitorCommands: true, appName: 'faults-worker', serverSelectionTimeoutMS: 20_000 })
  .asPromise();
const gateway = await createModelGateway({
  mongo: connection,
  secretKeys: [config.secretKey],
  allowHttp: true,
  allowPrivateNetworks: ['127.0.0.0/8'],
  retryDelays: config.retryDelays,
  sweepInterval: 500,
  logger: { info() {}, warn() {}, error() {} },
});
if (config.crash) armCrash(connection, config.crash);
await gateway.start();

process.on('message', async ({ serial, idempotencyKey, data }: PublishRequest) => {
  const input = { type: 'payment.completed', userId: 'usr_1', data };
  const reply: PublishReply = await gateway.publish(input, { idempotencyKey }).then(
    ({ id }) => ({ serial, eventId: id }),
    (error: unknown) => ({ serial, error: error instanceof GatewayError ? error.code : String(error) }),
  );
  if (process.connected) process.send?.(reply);
});
process.on('SIGTERM', async () => {
  await gateway.close();
  await connection.close();
  process.exit(0);
});
// without the suite there is nobody to work for
process.on('disconnect', () => process.exit(1));
process.send?.('ready');
