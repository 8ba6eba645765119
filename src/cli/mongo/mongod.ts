import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, readFile, stat, truncate } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Guardian } from './guardian.ts';
import { runningRecord } from './record.ts';
import { type MongoAccess, memberClient } from './replica-set.ts';

export interface MongodOptions {
  readonly binary: string;
  readonly dbPath: string;
  readonly logPath: string;
  readonly replSet: string;
  readonly access: MongoAccess;
  /** Taken if it is free. */
  readonly preferredPort?: number | undefined;
  /** Failpoints and the like, for tests. */
  readonly testCommands: boolean;
  readonly guardian: Guardian;
}

/**
 * Starts a mongod on data that a mongod of a killed gateway may still hold: waits for that one to end,
 * and ends it if it does not. Two never run on the same data: mongod's own lock decides.
 * @throws Error when another living gateway runs on this data
 */
export async function startOnData(options: MongodOptions, dataDir: string) {
  const startedAt = Date.now();
  let signalledPid: number | undefined;

  async function makeRoom(): Promise<void> {
    const running = await runningRecord(dataDir);
    if (running) {
      throw new Error(`${dataDir} is in use by process ${running.pid}. Stop that one, or choose another DATA_DIR`);
    }
    // mongod writes its pid into the file it holds the lock on
    const holder = Number(await readFile(join(options.dbPath, 'mongod.lock'), 'utf8').catch(() => ''));
    if (!(holder > 0) || holder === signalledPid || Date.now() - startedAt < gracePeriod) return;
    signalledPid = holder;
    try {
      process.kill(holder, 'SIGTERM');
    } catch {
      // it has ended in the meantime
    }
  }

  for (;;) {
    try {
      return await startMongod(options);
    } catch (error) {
      const isOver = Date.now() - startedAt > maxWait;
      if (isOver || !(error instanceof MongodStartError) || error.kind === 'other') throw error;
      if (error.kind === 'data_in_use') await makeRoom();
      await sleep(200);
    }
  }
}

/** How long a left-over mongod can take to end on its own: its guardian needs about a second. */
const gracePeriod = 5_000;
const maxWait = 30_000;

/** Why a mongod ended before it accepted connections. */
class MongodStartError extends Error {
  readonly kind: 'data_in_use' | 'port_in_use' | 'other';

  constructor(kind: MongodStartError['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}

/**
 * Starts a mongod on loopback and resolves when it accepts connections. `ended` resolves when it has ended, however.
 * @throws MongodStartError when it ends before that
 */
export async function startMongod(options: MongodOptions) {
  await mkdir(options.dbPath, { recursive: true, mode: 0o700 });
  const port = await freePort(options.preferredPort);
  const { child, logStart } = await spawnLogged(options, port);
  const pid = child.pid as number;
  options.guardian.watch(pid);
  let running = true;
  const ended = once(child, 'exit').then(() => {
    running = false;
    options.guardian.forget(pid);
  });
  child.unref();
  while (running && !((await isListening(port)) && (await pidAt(port, options.access)) === pid)) await sleep(20);
  if (!running) throw await whyItEnded(options, logStart);
  return { pid, port, ended, kill: (signal: NodeJS.Signals) => void child.kill(signal) };
}

const largestLog = 5 * 1024 * 1024;

function commandLine(options: MongodOptions, port: number): string[] {
  const parameters = [
    // a shutdown by SIGTERM need not wait for clients: there are no others
    'shutdownTimeoutMillisForSignaledShutdown=100',
    'diagnosticDataCollectionEnabled=false',
    // without the key there is no access, not even before there is a user
    'enableLocalhostAuthBypass=false',
    ...(options.testCommands ? ['enableTestCommands=1'] : []),
  ];
  return [
    ...['--dbpath', options.dbPath, '--port', String(port), '--bind_ip', '127.0.0.1'],
    ...['--keyFile', options.access.keyFile],
    ...['--replSet', options.replSet, '--oplogSize', '512', '--wiredTigerCacheSizeGB', '0.5', '--quiet'],
    ...(process.platform === 'win32' ? [] : ['--nounixsocket']),
    ...parameters.flatMap((parameter) => ['--setParameter', parameter]),
  ];
}

async function spawnLogged(options: MongodOptions, port: number): Promise<{ child: ChildProcess; logStart: number }> {
  const { size } = await stat(options.logPath).catch(() => ({ size: 0 }));
  if (size > largestLog) await truncate(options.logPath);
  // appended to, never replaced: another mongod may still be writing its last lines
  const log = await open(options.logPath, 'a', 0o600);
  try {
    const stdio: ['ignore', number, number] = ['ignore', log.fd, log.fd];
    const child = spawn(options.binary, commandLine(options, port), { detached: true, stdio });
    await once(child, 'spawn');
    return { child, logStart: size > largestLog ? 0 : size };
  } finally {
    await log.close();
  }
}

async function whyItEnded(options: MongodOptions, logStart: number): Promise<MongodStartError> {
  const log = (await readFile(options.logPath)).subarray(logStart).toString();
  if (log.includes('DBPathInUse')) return new MongodStartError('data_in_use', `${options.dbPath} is in use`);
  if (log.includes('SocketException') || log.includes('Address already in use')) {
    return new MongodStartError('port_in_use', 'the port is in use');
  }
  const errors = log.split('\n').filter((line) => /"s":"[EF]"/.test(line) || !line.startsWith('{'));
  const last = errors.filter(Boolean).slice(-3).join('\n');
  return new MongodStartError('other', `mongod ended at once; its log is ${options.logPath}\n${last}`);
}

/** The process that answers on a port: another mongod may have taken it since it was found free. */
async function pidAt(port: number, access: MongoAccess): Promise<number | undefined> {
  const client = memberClient(`127.0.0.1:${port}`, access, { serverSelectionTimeoutMS: 2_000 });
  try {
    return Number((await client.db('admin').command({ serverStatus: 1 })).pid);
  } catch {
    return undefined;
  } finally {
    await client.close();
  }
}

const loopback = '127.0.0.1';

/** `preferred` if it is free, else a port that the system chooses. */
async function freePort(preferred?: number): Promise<number> {
  const port = (preferred && (await listenOnce(preferred))) || (await listenOnce(0));
  if (!port) throw new Error('no free port on 127.0.0.1');
  return port;
}

function listenOnce(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen(port, loopback, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : undefined));
    });
  });
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, loopback);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
