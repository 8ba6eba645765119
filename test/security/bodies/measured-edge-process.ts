import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { AccountMemory } from '../../../src/fairness/account-shares.ts';
import { createApi } from '../../../src/http/api.ts';
import { createAuthenticator } from '../../../src/http/authentication.ts';
import { createRouter } from '../../../src/http/router.ts';
import { hardenServer } from '../../../src/index.ts';
import { fakeOperations } from '../../http/fake-edge.ts';
import { listenOn } from '../../support/listen.ts';
import { silentLogger } from '../../support/logger.ts';
import { createTestProxy } from '../../support/model-proxy.ts';
import { loadSpec } from '../../support/openapi.ts';
import type { Measures } from './bounds.ts';

/**
 * A process with every operation behind the real edge, its model calls relayed to the base URL that it is given. Tells its port,
 * and for every message what it has used since the one before, or how long a loop takes here. `authorization: Bearer <account>` is the key of an account.
 */
const proxy = createTestProxy({ upstreams: [{ name: 'one', baseUrl: process.argv[2] ?? '' }] });
const addApi = createApi({
  spec: loadSpec(),
  operations: fakeOperations(proxy.operations),
  modelBodyLimit: 32 * 1024 * 1024,
  webhookBodyLimit: 256 * 1024,
  bodyMemory: new AccountMemory(256 * 1024 * 1024),
  logger: silentLogger,
});
const { byKey } = createAuthenticator({
  byKey: ({ headers }) => {
    const userId = headers.authorization?.replace('Bearer ', '');
    return userId ? { userId, scopes: ['models', 'webhooks', 'events:publish', 'keys', 'admin'] } : null;
  },
});
const router = createRouter(silentLogger);
addApi(router, byKey);
const server = hardenServer(createServer(router));

const heldBytes = (): number => {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

const milliseconds = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1_000;

/** What Linux says of the main thread alone; elsewhere the threads that collect garbage count too. */
const threadStatistics = '/proc/self/schedstat';
const threadMs = existsSync(threadStatistics)
  ? () => Number(readFileSync(threadStatistics, 'latin1').split(' ')[0]) / 1e6
  : () => milliseconds(process.cpuUsage());

let began = process.cpuUsage();
let turn = threadMs();
let turnAt = performance.now();
let measures: Measures = { cpuMs: 0, heldMs: 0, peakBytes: 0, rssBytes: 0 };

/**
 * For how long the loop was held is told by the CPU time that its thread used between two ticks, and not by the clock: while
 * another process has the CPU nothing is held by this one.
 */
function tick(): void {
  const heldMs = Math.min(threadMs() - turn, performance.now() - turnAt);
  turn = threadMs();
  turnAt = performance.now();
  measures = {
    cpuMs: milliseconds(process.cpuUsage(began)),
    heldMs: Math.max(measures.heldMs, heldMs),
    peakBytes: Math.max(measures.peakBytes, heldBytes()),
    rssBytes: process.memoryUsage.rss(),
  };
}

/** A loop over bytes, as most of what a body costs is one. @returns its CPU time in ms */
function timeReferenceLoop(): number {
  const bytes = Buffer.alloc(16 * 1024 * 1024, 'words ');
  const start = threadMs();
  let sum = 0;
  for (let round = 0; round < 4; round += 1) for (let i = 0; i < bytes.length; i += 1) sum += bytes[i] as number;
  return sum > 0 ? threadMs() - start : 0;
}

process.on('message', (text) => {
  tick();
  if (text === 'reference') {
    process.send?.(timeReferenceLoop());
    return;
  }
  process.send?.(measures);
  if (text === 'collect') global.gc?.();
  began = process.cpuUsage();
  turn = threadMs();
  turnAt = performance.now();
  measures = { cpuMs: 0, heldMs: 0, peakBytes: heldBytes(), rssBytes: 0 };
});
process.on('disconnect', () => process.exit());
const port = await listenOn(server);
setInterval(tick, 5);
process.send?.(port);
