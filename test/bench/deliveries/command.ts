import { CommandProcess, cli } from '../../cli/command.ts';
import { newUri, nodeOptionsForProfile, type Setup, type Target } from './setup.ts';
import { cpuOf, type KernelCounts, kernelCountsOf, mongodUsage, peakMemoryOf, type Usage } from './usage.ts';

/** The account that a command's key is of. */
export const userId = 'usr_1';

/** The stand-alone command, running. */
export interface Command {
  readonly target: Target;
  /** Of its database. */
  readonly uri: string;
  /** The one that was started, and those that it has started to serve, if there are any. */
  readonly pids: readonly number[];
  /** Of all its processes, like what follows. */
  usage(): Promise<Usage & KernelCounts>;
  /** Megabytes. */
  peakMemory(): Promise<number>;
  /** Webhooks of its account, made through the API. */
  subscribe(urls: readonly string[]): Promise<void>;
  /** Ends it as Ctrl-C does. */
  end(): Promise<void>;
}

type Variables = Readonly<Record<string, string>>;

/** How a command is started, but for its database. */
export interface Start {
  /** Its file, of this checkout or another one. @default of this one */
  readonly script?: string;
  readonly variables?: Variables;
}

async function createWebhook({ port, key }: Target, url: string, secret: string): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/webhooks`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ url, events: ['credits.low'], secret }),
  });
  if (!response.ok) throw new Error(`a webhook was answered ${response.status}: ${await response.text()}`);
}

async function createKey(script: string, variables: Variables): Promise<string> {
  const flags = ['--database', '--user', userId, '--scope', 'models,webhooks,events:publish'];
  const command = new CommandProcess(['keys', 'create', ...flags], variables, [], script);
  const [, key = ''] = await command.until(/^API key: (\S+)$/m);
  await command.exited;
  return key;
}

/** The ids of a command's processes once all of them serve. One serves by itself; of several, each says so. */
async function processesOf(command: CommandProcess, workers = '1'): Promise<number[]> {
  // printed after the number of processes, which is absent unless `WORKERS` is or defaults to `auto`
  await command.until(/^Webhooks may use: /m);
  const count = Number(/^Processes: (\d+)/m.exec(command.stdout)?.[1] ?? workers);
  const pids = [command.child.pid ?? 0];
  for (let i = 1; count > 1 && i <= count; i += 1) {
    const [, pid] = await command.until(new RegExp(`^Process ${i} serves \\(pid (\\d+)\\)$`, 'm'));
    pids.push(Number(pid));
  }
  return pids;
}

/**
 * Starts the built command as its users do in production, with no option of Node. It may deliver to loopback.
 * @param before a command that has ended, whose database and key this one takes. @default a database of its own
 */
export async function startCommand(setup: Setup, start: Start, before?: Command): Promise<Command> {
  const { script = cli, variables = {} } = start;
  const uri = before?.uri ?? newUri(setup.mongo);
  const database = { MONGODB_URI: uri, SECRET_KEYS: setup.secretKey };
  const receivers = { ALLOW_HTTP: 'true', ALLOW_PRIVATE_NETWORKS: '127.0.0.0/8' };
  const environment = { NODE_ENV: 'production', PORT: '0', ...database, ...receivers, ...variables };
  const command = new CommandProcess(['start'], environment, nodeOptionsForProfile, script);

  async function end(): Promise<void> {
    await setup.load.call('retarget');
    await command.end('SIGINT');
  }

  try {
    const [, port] = await command.until(/^Base URL: http:\/\/127\.0\.0\.1:(\d+)\/v1$/m);
    const pids = await processesOf(command, variables.WORKERS);
    const target = { port: Number(port), key: before?.target.key ?? (await createKey(script, database)) };
    const sum = async (read: (pid: number) => Promise<number>) =>
      (await Promise.all(pids.map(read))).reduce((total, one) => total + one, 0);
    return {
      target,
      uri,
      pids,
      usage: async () => ({
        cpu: await sum(cpuOf),
        ...(await kernelCountsOf(pids)),
        ...(await mongodUsage(setup.connection)),
      }),
      peakMemory: () => sum(peakMemoryOf),
      async subscribe(urls) {
        for (const url of urls) await createWebhook(target, url, setup.secret);
      },
      end,
    };
  } catch (error) {
    await end();
    throw error;
  }
}
