import express from 'express';
import mongoose from 'mongoose';
import type { ModelGatewayOptions } from '../../../src/index.ts';
import { createGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';

/** What a gateway process is told, as JSON in PROCESS_CONFIG. */
export interface GatewayProcessConfig {
  readonly uri: string;
  readonly options: Omit<ModelGatewayOptions, 'mongo'>;
}

/** A command of the database that a process dies of when it has sent it; any collection's where none is named. */
export interface DeadlyCommand {
  readonly command: string;
  readonly collection?: string;
}

/** One of several processes that serve the same accounts, in an Express app on loopback, until it is killed. */
const { uri, options } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}') as GatewayProcessConfig;
const connection = await mongoose
  .createConnection(uri, { monitorCommands: true, serverSelectionTimeoutMS: 20_000 })
  .asPromise();
const gateway = await createGateway({ ...options, mongo: connection });
const { url } = await listen(express().use(gateway.router));
await gateway.start();

process.on('message', ({ command, collection }: DeadlyCommand) => {
  connection.getClient().on('commandStarted', (event) => {
    // outside of transactions nothing is left half done
    if (event.commandName !== command || event.command.autocommit !== false) return;
    if (collection && event.command[command] !== collection) return;
    process.kill(process.pid, 'SIGKILL');
  });
});
// without the tests there is nobody to serve
process.on('disconnect', () => process.exit(1));
process.send?.({ url });
