import { createServer } from 'node:http';
import express from 'express';
import { GatewayError, hardenServer, type ModelGateway } from '../../../src/index.ts';
import { openDatabase } from '../../../src/mongo/connection/connection.ts';
import { createGateway } from '../../support/gateway.ts';
import { listenOn } from '../../support/listen.ts';
import { silentLogger } from '../../support/logger.ts';
import { moneyOptions, type UpstreamUrls } from '../money/options.ts';
import { armCrash } from './crash-points.ts';
import type { Control } from './workers.ts';

/** What a worker process is told, as JSON in PROCESS_CONFIG. */
export interface WorkerConfig {
  readonly uri: string;
  readonly secretKey: string;
  readonly retryDelays: readonly number[];
  readonly upstreams: UpstreamUrls;
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

/** What it says when it works. */
export interface ReadyMessage {
  /** Where it serves HTTP, without `/v1`. */
  readonly url: string;
}

/** What it says when it was told to die and stop nowhere any more. */
export interface DisarmedMessage {
  readonly disarmed: true;
}

const config = JSON.parse(process.env.PROCESS_CONFIG ?? '{}') as WorkerConfig;
/** As a gateway opens its own, whose commands nobody else can watch. */
const { connection } = await openDatabase(config.uri, silentLogger);
const gateway: ModelGateway = await createGateway({
  mongo: connection,
  secretKeys: [config.secretKey],
  retryDelays: config.retryDelays,
  deliveries: { sweepInterval: 500 },
  // some windows end while the suite runs
  fixed: { limitEventWindow: 10_000 },
  ...moneyOptions(config.upstreams),
});
await gateway.start();
const server = hardenServer(createServer(express().use(gateway.router)));
gateway.attach(server);
const port = await listenOn(server);

let disarm = () => {};
const arm = (crash: Control['crash']) => {
  disarm();
  disarm = crash ? armCrash(connection, crash) : () => {};
};

process.on('message', async (message: PublishRequest | Control) => {
  if ('crash' in message) {
    arm(message.crash);
    if (!message.crash) process.send?.({ disarmed: true } satisfies DisarmedMessage);
  }
  // others listen for that
  if (!('serial' in message)) return;
  const { serial, idempotencyKey, data } = message;
  const input = { type: 'payment.completed', userId: 'usr_1', data };
  const reply: PublishReply = await gateway.publish(input, { idempotencyKey }).then(
    ({ id }) => ({ serial, eventId: id }),
    (error: unknown) => ({ serial, error: error instanceof GatewayError ? error.code : String(error) }),
  );
  if (process.connected) process.send?.(reply);
});
process.on('SIGTERM', async () => {
  await gateway.close();
  process.exit(0);
});
// without the suite there is nobody to work for
process.on('disconnect', () => process.exit(1));
process.send?.({ url: `http://127.0.0.1:${port}` } satisfies ReadyMessage);
