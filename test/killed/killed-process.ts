import express from 'express';
import mongoose from 'mongoose';
import { openLedger } from '../accounting/usage/ledger.ts';
import { createGateway, type TestOptions } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';

/** What a process is told, as JSON in PROCESS_CONFIG: the options of the gateway that it serves on loopback, or the quota with which it does nothing but count usage. */
export type ProcessConfig = { readonly uri: string } & (
  | { readonly options: Omit<TestOptions, 'mongo'> }
  | { readonly daily: number }
);

/** A command of a transaction that a process dies of when it has sent it; any collection's where none is named. */
export interface DeadlyCommand {
  readonly command: string;
  readonly collection?: string;
}

const config = JSON.parse(process.env.PROCESS_CONFIG ?? '{}') as ProcessConfig;
const connection = await mongoose
  .createConnection(config.uri, { monitorCommands: true, serverSelectionTimeoutMS: 20_000 })
  .asPromise();

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

if ('options' in config) {
  const gateway = await createGateway({ ...config.options, mongo: connection });
  const { url } = await listen(express().use(gateway.router), (server) => gateway.attach(server));
  await gateway.start();
  process.send?.({ url });
} else {
  const ledger = await openLedger(connection);
  const count = ledger.counter({ perUser: { unit: 'requests', daily: config.daily } }, 7);
  process.send?.({ url: '' });
  // two processes that make one counter at once conflict: the one that loses tries again
  for (;;) await count().catch(() => {});
}
