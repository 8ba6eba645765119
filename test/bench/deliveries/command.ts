import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import mongoose from 'mongoose';
import { CommandProcess } from '../../cli/command.ts';
import { nodeOptionsForProfile, type Target } from './setup.ts';
import { cpuOf, mongodUsage, peakMemoryOf, type Usage } from './usage.ts';

/** The stand-alone command. */
export interface Command {
  readonly target: Target;
  /** The account of its first key. */
  readonly userId: string;
  /** Of all its processes. */
  usage(): Promise<Usage>;
  /** The most that one of its processes has used so far. Megabytes. */
  peakMemory(): Promise<number>;
  /** Webhooks of that account, made through the API. */
  subscribe(urls: readonly string[], secret: string): Promise<void>;
  /** Ends it as Ctrl-C does, and removes its data. */
  end(): Promise<void>;
}

async function createWebhook({ port, key }: Target, url: string, secret: string): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/webhooks`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ url, events: ['credits.low'], secret }),
  });
  if (!response.ok) throw new Error(`a webhook was answered ${response.status}: ${await response.text()}`);
}

/** A MongoDB that is there already, and how many processes share the port of the command. */
interface Several {
  readonly uri: string;
  readonly secretKey: string;
  readonly count: number;
}

/** As `npm start` runs Node. */
export const startOptions = ['--max-semi-space-size=8', '--heap-growing-percent=100', ...nodeOptionsForProfile];

/** The ids of the processes that a command has started once they serve; one process serves by itself. */
export async function processesOf(command: CommandProcess, count: number): Promise<number[]> {
  const pids: number[] = [];
  for (let i = 1; count > 1 && i <= count; i += 1) {
    const [, pid] = await command.until(new RegExp(`^Process ${i} serves \\(pid (\\d+)\\)$`, 'm'));
    pids.push(Number(pid));
  }
  return pids;
}

/**
 * Starts the built command as its users do, with its defaults: a port and a folder of its own are all that it is told.
 * It may deliver to loopback because it listens there. Its MongoDB is embedded, but for several processes.
 */
export async function startCommand(several?: Several): Promise<Command> {
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-command-'));
  const shared = several && {
    MONGODB_URI: several.uri,
    SECRET_KEYS: several.secretKey,
    WORKERS: String(several.count),
  };
  const command = new CommandProcess(
    ['start'],
    { PORT: '0', DATA_DIR: dataDir, ...shared },
    several ? startOptions : nodeOptionsForProfile,
  );

  async function end(): Promise<void> {
    await command.end('SIGINT');
    await rm(dataDir, { recursive: true });
  }

  try {
    const printed = async (pattern: RegExp) => (await command.until(pattern))[1] ?? '';
    const target = {
      port: Number(await printed(/^Base URL: http:\/\/127\.0\.0\.1:(\d+)\/v1$/m)),
      key: await printed(/^API key: (\S+)$/m),
    };
    const userId = await printed(/^User: (\S+)$/m);
    const pids = [command.child.pid ?? 0, ...(await processesOf(command, several?.count ?? 1))];
    const uri = several?.uri ?? JSON.parse(await readFile(join(dataDir, 'mongo.json'), 'utf8')).uri;
    const connection = await mongoose.createConnection(uri, { heartbeatFrequencyMS: 60_000 }).asPromise();
    return {
      target,
      userId,
      async usage() {
        const cpus = await Promise.all(pids.map(cpuOf));
        return { cpu: cpus.reduce((sum, cpu) => sum + cpu, 0), ...(await mongodUsage(connection)) };
      },
      peakMemory: async () => Math.max(...(await Promise.all(pids.map(peakMemoryOf)))),
      async subscribe(urls, secret) {
        for (const url of urls) await createWebhook(target, url, secret);
      },
      async end() {
        await connection.close();
        await end();
      },
    };
  } catch (error) {
    await end();
    throw error;
  }
}
