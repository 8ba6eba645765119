import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import mongoose from 'mongoose';
import { CommandProcess } from '../../cli/command.ts';
import { nodeOptionsForProfile, type Target } from './setup.ts';
import { cpuOf, mongodUsage, type Usage } from './usage.ts';

/** The stand-alone command, with an embedded MongoDB of its own. */
export interface Command {
  readonly target: Target;
  /** The account of its first key. */
  readonly userId: string;
  usage(): Promise<Usage>;
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

/**
 * Starts the built command as its users do, with its defaults: a port and a folder of its own are all that it is told.
 * It may deliver to loopback because it listens there.
 */
export async function startCommand(): Promise<Command> {
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-command-'));
  const command = new CommandProcess(['start'], { PORT: '0', DATA_DIR: dataDir }, nodeOptionsForProfile);

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
    const { uri } = JSON.parse(await readFile(join(dataDir, 'mongo.json'), 'utf8'));
    const connection = await mongoose.createConnection(uri, { heartbeatFrequencyMS: 60_000 }).asPromise();
    return {
      target,
      userId,
      usage: async () => ({ cpu: await cpuOf(command.child.pid ?? 0), ...(await mongodUsage(connection)) }),
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
