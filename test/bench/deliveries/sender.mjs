import { readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import express from 'express';
import mongoose from 'mongoose';
import { createCommandCounter } from '../commands.mjs';
import { serve } from './rpc.mjs';

/** The gateway as it is shipped, compiled, alone in a process: with its router, and with its workers once they are started. */
const { uri, secretKey, options } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}');
const { countCommands = false, ...gatewayOptions } = options ?? {};
// commands are told by the source file that sends them, which only the build of single files knows
const entry = countCommands ? '../../../dist/index.js' : 'express-model-gateway';
const { createModelGateway, hardenServer, scopes } = await import(entry);
const connection = await mongoose.createConnection(uri, { monitorCommands: countCommands }).asPromise();
const commands = countCommands ? createCommandCounter(connection) : () => [];
const gateway = await createModelGateway({
  mongo: connection,
  secretKeys: [secretKey],
  allowHttp: true,
  allowPrivateNetworks: ['127.0.0.0/8'],
  logger: { info() {}, warn() {}, error: console.error },
  ...gatewayOptions,
  limits: { webhooks: 100_000, writesPerMinute: 1_000_000, readsPerMinute: 1_000_000, ...gatewayOptions.limits },
});
const server = hardenServer(createServer(express().use(gateway.router)));
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));

serve({
  /** @param userId the account of the key; one may have 50 */
  async open(userId = 'usr_bench') {
    const { key } = await gateway.keys.create({ userId, scopes });
    return { port: server.address().port, key };
  },
  start: () => gateway.start(),
  async subscribe(userId, urls, secret) {
    for (let i = 0; i < urls.length; i += 50) {
      const some = urls.slice(i, i + 50);
      await Promise.all(some.map((url) => gateway.webhooks.create(userId, { url, events: ['credits.low'], secret })));
    }
  },
  publish: (event) => gateway.publish(event),
  usage() {
    const { user, system } = process.cpuUsage();
    return { cpu: (user + system) / 1e3, peak: process.resourceUsage().maxRSS / 1024 };
  },
  /** Commands since they were asked for last; with `countCommands` alone. */
  commands,
  /** What is held once garbage is gone; memory in bytes. */
  held() {
    setFlagsFromString('--expose-gc');
    runInNewContext('gc')();
    const { rss, heapUsed } = process.memoryUsage();
    const handles = process.getActiveResourcesInfo().length;
    return { rss, heapUsed, handles, files: readdirSync('/proc/self/fd').length };
  },
  async close() {
    server.closeAllConnections();
    await gateway.close();
    await connection.close();
  },
});
process.send?.('ready');
