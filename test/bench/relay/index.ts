import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type EmbeddedMongo, startEmbeddedMongo } from '../../../src/cli/mongo/embedded-mongo.ts';
import { announce, describeGroups, readGroups, showHelp } from '../arguments.ts';
import { uriOf } from '../deliveries/setup.ts';
import { cpuOf, type Sent } from '../deliveries/usage.ts';
import { machineOf } from '../origin.ts';
import { type Figure, median, percentile, report } from '../report.ts';
import { download, fileLength, startFileUpstream, upload } from './files.ts';
import { chatRequest, readStreams, saturate, steadily, type Target } from './load.ts';
import { echo, openSockets, startSocketUpstream } from './sockets.ts';
import { BenchUpstream } from './upstream.ts';

/**
 * What the relay costs, mounted in Express and in front of it, beside Node's floor and beside what a careful hand writes with
 * Express and undici. The servers take turns on one core, load and provider share the other. Needs the built package.
 */

/** The last five share a part of their time. */
const durations = {
  files: 20,
  sockets: 20,
  everyday: 95,
  metrics: 50,
  requests: 110,
  accounting: 60,
  prompts: 40,
  streams: 50,
};
type Group = keyof typeof durations;
showHelp('bench:relay', {
  '--quick': 'one short round',
  '--only=<groups>': `${describeGroups(durations)}; everyday is of calls that come alone, metrics of what they cost`,
  '--against=<folder>': 'compares with the gateway of another checkout, installed and built: requests alone',
});
const { values } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, only: { type: 'string' }, against: { type: 'string' } },
});
const { quick, against } = values;
if (against !== undefined && !existsSync(join(against, 'dist/index.cjs'))) {
  throw new TypeError(
    `--against takes the folder of a checkout that is installed and built, not ${against || 'nothing'}`,
  );
}
const wanted: Group[] =
  against === undefined
    ? readGroups(durations, values.only)
    : readGroups({ requests: durations.requests }, values.only);
const isWanted = (group: Group): boolean => wanted.includes(group);
const rounds = quick ? 1 : 3;
/** Turns of each server in a round. */
const metricsPairs = quick ? 5 : 25;
const seconds = quick ? 2 : 5;
/** The gateway without the work of prom-client, beside the gateway. */
const measured = ['gateway', 'unmeasured'] as const;
/** `other`: the mounted gateway of another checkout. */
const compared = against === undefined ? [] : (['other'] as const);
const names = ['pipe', 'express', 'gateway', 'in_front', ...compared] as const;
type Name = (typeof names)[number] | (typeof measured)[number] | 'accounting' | 'socket_pipe';
/** Those that are measured with calls that come alone; plain Express is the floor. */
const everyday = ['express', 'gateway', 'accounting'] as const;
/** The servers that are measured together, in turns. */
const together: Partial<Record<Group, readonly Name[]>> = {
  metrics: measured,
  requests: names,
  accounting: ['gateway', 'accounting'],
  prompts: ['express', 'gateway'],
  streams: ['gateway'],
};
const startedNames = [...new Set(wanted.flatMap((group) => together[group] ?? []))];

/** Says on stderr how long a part took. */
async function timed(part: string, work: () => Promise<void>): Promise<void> {
  const started = performance.now();
  await work();
  console.error(`  (${part}: ${((performance.now() - started) / 1_000).toFixed(0)} s)`);
}

interface Server extends Target {
  readonly child: ChildProcess;
}

type Servers = Readonly<Record<Name, Server>>;

function hasTaskset(): boolean {
  try {
    execFileSync('taskset', ['-pc', '1', String(process.pid)], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

const pinned = hasTaskset();

/**
 * As hosts start Node, but that V8 keeps compiled code, all servers alike: it forgets that of a server which waits for its turn, and a server
 * under load never waits. One that begins anew answers 800 requests in the first second, and 3,000 in the tenth.
 */
const nodeOptions = ['--no-flush-bytecode'];
const ownFolder = fileURLToPath(new URL('../../..', import.meta.url));

async function start(
  name: Name,
  upstream: Pick<BenchUpstream, 'port'>,
  mongo: string,
  variables: Record<string, string> = {},
): Promise<Server> {
  const isOther = name === 'other';
  const checkout = isOther ? (against ?? ownFolder) : ownFolder;
  const script = join(checkout, 'test/bench/relay/server.mjs');
  const database = isOther ? uriOf({ uri: mongo }, name) : mongo;
  const node = [process.execPath, ...(process.env.BENCH_NODE_OPTIONS?.match(/\S+/g) ?? nodeOptions), script];
  const [command = '', ...args] = [...(pinned ? ['taskset', '-c', '0'] : []), ...node];
  // not on the command line, which shows a URI's password to every user of the machine
  const env = { ...process.env, NODE_ENV: 'production', BENCH_MONGO: database, ...variables };
  const child = spawn(command, [...args, isOther ? 'gateway' : name, String(upstream.port)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env,
  });
  const ended = once(child, 'exit').then(([status]) => {
    throw new Error(`${name} ended with status ${status} before it served`);
  });
  const [{ port, key }] = (await Promise.race([once(child, 'message'), ended])) as [Target];
  ended.catch(() => {});
  return { child, port, key };
}

async function stop(...servers: readonly Server[]): Promise<void> {
  for (const { child } of servers) child.send('stop');
  await Promise.all(servers.map(({ child }) => once(child, 'exit')));
}

/** The commands that a server has sent to its database since it was asked last. */
async function commandsOf({ child }: Server): Promise<readonly Sent[]> {
  child.send('commands');
  const [sent] = (await once(child, 'message')) as [readonly Sent[]];
  return sent;
}

async function usageOf({ child }: Server): Promise<{ cpu: number; peak: number }> {
  child.send('usage');
  const [usage] = (await once(child, 'message')) as [{ cpu: number; peak: number }];
  return usage;
}

/** Microseconds of CPU that the server spent while `work` ran, and its result. */
async function costOf<T>(server: Server, work: () => Promise<T>): Promise<{ result: T; cpu: number }> {
  const before = await usageOf(server);
  const result = await work();
  return { result, cpu: (await usageOf(server)).cpu - before.cpu };
}

const figures = new Map<string, { unit: string; values: number[] }>();
function note(name: string, unit: string, value: number): void {
  const figure = figures.get(name) ?? { unit, values: [] };
  figure.values.push(value);
  figures.set(name, figure);
}

/** Before a turn that counts: what a server has left for later while it was busy is done. Milliseconds. */
const warmUp = 1_000;
/** From a server's first call on: measured by itself. Milliseconds. */
const coldTime = 4_000;
/** After that: until V8 has compiled all that a call runs. Milliseconds. */
const firstWarmUp = 8_000;

const question = { model: 'bench-1', messages: [{ role: 'user', content: 'What does a gateway add? '.repeat(20) }] };
const longQuestion = {
  model: 'bench-1',
  messages: [{ role: 'user', content: 'Forty words of "context", with\nline ends. '.repeat(4_700) }],
};

/** What a server answers and takes while 64 connections are busy. @returns requests a second */
async function measureRate(name: Name, server: Server): Promise<number> {
  const request = chatRequest(server, question);
  await saturate(server, request, 64, warmUp);
  const { result, cpu } = await costOf(server, () => saturate(server, request, 64, seconds * 1_000));
  const rate = result.count / result.seconds;
  note(`relay_${name}_requests`, '1/s', rate);
  note(`relay_${name}_cpu_per_request`, 'µs', cpu / result.count);
  return rate;
}

/** @param cold what each server answered a second in its first seconds */
async function measureRequests(servers: Servers, cold: Record<Name, number>, direct: Target): Promise<void> {
  const rates = {} as Record<Name, number>;
  for (const name of names) {
    rates[name] = await measureRate(name, servers[name]);
    note(`relay_${name}_first_4_seconds_to_warm`, 'ratio', cold[name] / rates[name]);
  }
  for (const name of ['gateway', 'in_front', ...compared] as const) {
    note(`relay_${name}_share_of_express`, 'ratio', rates[name] / rates.express);
  }
  for (const name of compared) note('relay_gateway_to_other', 'ratio', rates.gateway / rates[name]);

  const alone = async (target: Target) =>
    median((await saturate(target, chatRequest(target, question), 1, 500)).firstBytes);
  note('relay_gateway_added_first_byte', 'ms', (await alone(servers.gateway)) - (await alone(direct)));
}

/**
 * What accounting adds to a call, in short turns beside each other: the pace of a machine changes by more than that. Each turn
 * follows upon another of the same server, so that as much is left to be counted at its beginning as at its end.
 */
async function measureAccounting(servers: Servers): Promise<void> {
  await measureRate('accounting', servers.accounting);
  const costPerRequest = async (server: Server): Promise<number> => {
    const request = chatRequest(server, question);
    await saturate(server, request, 64, warmUp);
    const { result, cpu } = await costOf(server, () => saturate(server, request, 64, 1_500));
    return cpu / result.count;
  };
  const pairs = quick ? 1 : 3;
  for (let pair = 0; pair < pairs; pair += 1) {
    const alone = await costPerRequest(servers.gateway);
    note('relay_accounting_added_cpu_per_request', 'µs', (await costPerRequest(servers.accounting)) - alone);
  }
}

/** What the metrics add to a call, in many short turns: less than the pace of a machine changes by from one turn to the next. */
async function measureMetrics(servers: Servers): Promise<void> {
  const ratios: number[] = [];
  for (const name of measured) await saturate(servers[name], chatRequest(servers[name], question), 16, warmUp);
  for (let pair = 0; pair < metricsPairs; pair += 1) {
    const costs = new Map<Name, number>();
    for (const name of pair % 2 === 0 ? measured : measured.toReversed()) {
      const request = chatRequest(servers[name], question);
      const { result, cpu } = await costOf(servers[name], () => saturate(servers[name], request, 16, 400));
      costs.set(name, cpu / result.count);
    }
    ratios.push((costs.get('gateway') ?? 0) / (costs.get('unmeasured') ?? 0));
  }
  note('relay_cpu_with_metrics_to_without', 'ratio', median(ratios));
}

/**
 * What a call costs that comes alone, ten a second, the database included: whatever the processes do meanwhile belongs to it.
 * @param mongod its process
 */
async function measureEveryday(server: Server, name: (typeof everyday)[number], mongod: number): Promise<void> {
  const request = chatRequest(server, question);
  const calls = quick ? 100 : 150;
  await steadily(server, request, 50, 10);
  const before = await cpuOf(mongod);
  const { cpu } = await costOf(server, () => steadily(server, request, calls, 10));
  note(`relay_${name}_10_a_second_cpu_per_request`, 'ms', cpu / 1_000 / calls);
  note(`relay_${name}_10_a_second_mongod_cpu_per_request`, 'ms', ((await cpuOf(mongod)) - before) / calls);
}

/** The commands of a call that comes alone, each with its caller. The driver reports them, which costs CPU: no time is measured. */
async function countCommands(name: 'gateway' | 'accounting', upstream: BenchUpstream, mongo: string): Promise<void> {
  const server = await start(name, upstream, mongo, { BENCH_COUNT_COMMANDS: 'yes' });
  const request = chatRequest(server, question);
  const calls = quick ? 50 : 100;
  await saturate(server, request, 64, 2_000);
  await steadily(server, request, 50, 10);
  await commandsOf(server);
  await steadily(server, request, calls, 10);
  for (const { command, caller, count } of await commandsOf(server)) {
    note(`relay_${name}_10_a_second_commands: ${command}, ${caller}`, 'a call', count / calls);
  }
  await stop(server);
}

/** Each server alone: the database works for the others, too, while they run. */
async function measureAllEveryday(upstream: BenchUpstream, mongo: EmbeddedMongo): Promise<void> {
  for (const name of everyday) {
    const server = await start(name, upstream, mongo.uri);
    await saturate(server, chatRequest(server, question), 64, 2_000);
    await measureEveryday(server, name, mongo.nodes[0]?.pid ?? 0);
    await stop(server);
  }
}

/** What a file costs, beside a bare pipe, in turns. */
async function measureFiles(mongo: string): Promise<void> {
  const upstream = await startFileUpstream();
  const servers = [
    ['pipe', await start('pipe', upstream, mongo)],
    ['gateway', await start('gateway', upstream, mongo)],
  ] as const;
  const size = fileLength / 1024 / 1024;
  for (const [, server] of servers) for (let i = 0; i < 3; i += 1) await download(server, await upload(server));
  for (let round = 0; round < 2 * rounds + 1; round += 1) {
    const rates: Record<string, number> = {};
    for (const [name, server] of round % 2 === 0 ? servers : servers.toReversed()) {
      const timed = async <T>(way: string, work: () => Promise<T>): Promise<T> => {
        const startedAt = performance.now();
        const { cpu, result } = await costOf(server, work);
        rates[`${way} ${name}`] = size / (performance.now() - startedAt);
        note(`relay_${name}_${way}_cpu_per_mib`, 'µs', cpu / size);
        return result;
      };
      const id = await timed('upload', () => upload(server));
      await timed('download', () => download(server, id));
    }
    for (const way of ['upload', 'download']) {
      note(`relay_gateway_${way}_share_of_pipe`, 'ratio', (rates[`${way} gateway`] ?? 0) / (rates[`${way} pipe`] ?? 0));
    }
  }
  await stop(...servers.map(([, server]) => server));
  upstream.close();
}

/** WebSockets that are open at once, and those of them that are busy. */
const socketsOpen = 1_000;
const socketsBusy = 50;

async function memoryOf({ child }: Server): Promise<number> {
  child.send('memory');
  const [bytes] = (await once(child, 'message')) as [number];
  return bytes;
}

/** What WebSockets cost beside the least that joins two, in turns. */
async function measureSockets(mongo: string): Promise<void> {
  const upstream = await startSocketUpstream();
  const servers = [
    ['socket_pipe', await start('socket_pipe', upstream, mongo)],
    ['gateway', await start('gateway', upstream, mongo)],
  ] as const;
  const busy: Record<string, Awaited<ReturnType<typeof openSockets>>> = {};
  for (const [name, server] of servers) {
    for (const socket of await openSockets(server, socketsBusy)) socket.terminate();
    const before = await memoryOf(server);
    const sockets = await openSockets(server, socketsOpen);
    note(`relay_${name}_memory_per_socket`, 'KB', ((await memoryOf(server)) - before) / 1_000 / socketsOpen);
    busy[name] = sockets.slice(0, socketsBusy);
  }
  for (let round = 0; round < 2 * rounds + 1; round += 1) {
    const costs: Record<string, number> = {};
    for (const [name, server] of round % 2 === 0 ? servers : servers.toReversed()) {
      const { result, cpu } = await costOf(server, () => echo(busy[name] ?? [], 400));
      costs[name] = cpu / (2 * result);
      // the first turn warms up
      if (round > 0) note(`relay_${name}_cpu_per_message`, 'µs', costs[name]);
    }
    if (round > 0)
      note('relay_gateway_message_beside_pipe', 'ratio', (costs.gateway ?? 0) / (costs.socket_pipe ?? Number.NaN));
  }
  for (const [, { child }] of servers) child.kill('SIGKILL');
  upstream.close();
}

async function measureLongPrompts(servers: Servers): Promise<void> {
  for (const name of ['express', 'gateway'] as const) {
    const server = servers[name];
    const request = chatRequest(server, longQuestion);
    const { result, cpu } = await costOf(server, () => saturate(server, request, 8, (seconds * 1_000) / 2));
    note(`relay_${name}_cpu_per_200kb_prompt`, 'µs', cpu / result.count);
  }
}

/** @param direct the provider itself, for what provider and reader add to a delay */
async function measureStreams(server: Server, direct: Target, upstream: BenchUpstream): Promise<void> {
  const request = chatRequest(server, { ...question, stream: true });
  upstream.pace = { chunks: 50 * (quick ? 3 : 5), gap: 20 };
  const unrelayed = median(await readStreams(direct, request, 200));
  const { result: delays, cpu } = await costOf(server, () => readStreams(server, request, 200));
  note('relay_direct_chunk_delay', 'ms', unrelayed);
  note('relay_gateway_chunk_delay', 'ms', median(delays));
  note('relay_gateway_added_chunk_delay', 'ms', median(delays) - unrelayed);
  note('relay_gateway_chunk_delay_p99', 'ms', percentile(delays, 99));
  note('relay_gateway_cpu_per_chunk', 'µs', cpu / delays.length);

  upstream.pace = { chunks: quick ? 15 : 30, gap: 200 };
  const many = await readStreams(server, request, 1_000);
  note('relay_gateway_1000_streams_slowest_chunk', 'ms', Math.max(...many));
  note('relay_gateway_1000_streams_stalls', 'chunks', many.filter((delay) => delay > 1_000).length);
  upstream.pace = { chunks: 0, gap: 0 };
}

async function main(): Promise<void> {
  const external = process.env.BENCH_MONGODB_URI;
  const mongo = external ? undefined : await startEmbeddedMongo({ temporary: true });
  const upstream = await BenchUpstream.start();
  const uri = external ?? mongo?.uri ?? '';
  if (!quick) announce(durations, wanted, rounds);
  if (isWanted('files')) await timed('files', () => measureFiles(uri));
  if (isWanted('sockets')) await timed('sockets', () => measureSockets(uri));
  if (mongo && isWanted('everyday')) {
    for (let round = 1; round <= rounds; round += 1) {
      await timed(`everyday, round ${round} of ${rounds}`, () => measureAllEveryday(upstream, mongo));
    }
    for (const name of ['gateway', 'accounting'] as const) {
      await timed(`everyday, commands of ${name}`, () => countCommands(name, upstream, uri));
    }
  }
  for (let round = 1; startedNames.length > 0 && round <= rounds; round += 1) {
    await timed(`round ${round} of ${rounds}`, () => measureTogether(upstream, uri));
  }
  upstream.close();
  await mongo?.stop();
  const pinning = pinned ? 'each server on one core' : 'servers not pinned to a core';
  const title = `Relay: ${pinning}, rounds: ${rounds}, on ${machineOf()}`;
  report(
    title,
    [...figures].map(([name, figure]): Figure => ({ name, ...figure })),
  );
}

/**
 * A round of all servers at once, which take turns; new ones in each round, because what V8 makes of a server differs from process to process by more
 * than from turn to turn.
 */
async function measureTogether(upstream: BenchUpstream, uri: string): Promise<void> {
  const direct = { port: upstream.port, key: 'none' };
  const started = await Promise.all(startedNames.map((name) => start(name, upstream, uri)));
  const servers = Object.fromEntries(startedNames.map((name, i) => [name, started[i]])) as Servers;
  const cold = {} as Record<Name, number>;
  for (const name of startedNames) {
    const request = chatRequest(servers[name], question);
    const { count, seconds } = await saturate(servers[name], request, 64, coldTime);
    cold[name] = count / seconds;
    await saturate(servers[name], request, 64, firstWarmUp);
  }
  if (isWanted('metrics')) await measureMetrics(servers);
  if (isWanted('requests')) await measureRequests(servers, cold, direct);
  if (isWanted('accounting')) await measureAccounting(servers);
  if (isWanted('prompts')) await measureLongPrompts(servers);
  // what is left to be counted would be counted on the same core
  await stop(...startedNames.filter((name) => name !== 'gateway').map((name) => servers[name]));
  if (isWanted('streams')) await measureStreams(servers.gateway, direct, upstream);
  note('relay_gateway_peak_memory', 'MB', (await usageOf(servers.gateway)).peak / 1e6);
  await stop(servers.gateway);
}

await main();
