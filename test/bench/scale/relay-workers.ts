import { CommandProcess, run } from '../../cli/command.ts';
import type { RelayFigures } from '../../scale/measured.ts';
import { processesOf, startOptions } from '../deliveries/command.ts';
import { type Setup, uriOf } from '../deliveries/setup.ts';
import { cpuOf } from '../deliveries/usage.ts';
import { chatRequest, saturate } from '../relay/load.ts';
import type { BenchUpstream } from '../relay/upstream.ts';
import { percentile } from '../report.ts';
import type { Members } from './members.ts';

const connections = 64;
const question = { model: 'bench-1', messages: [{ role: 'user', content: 'What does a gateway add? '.repeat(20) }] };

interface Relayed {
  readonly setup: Setup;
  readonly members: Members;
  readonly upstream: BenchUpstream;
  readonly workers: number;
  readonly seconds: number;
}

let databases = 0;

/** The stand-alone command with so many processes on one port, and a database of its own. */
async function startServer({ setup, upstream, workers }: Relayed) {
  databases += 1;
  const database = { MONGODB_URI: uriOf(setup.mongo, `relay_${databases}`), SECRET_KEYS: setup.secretKey };
  const command = new CommandProcess(
    ['start'],
    {
      ...database,
      PORT: '0',
      WORKERS: String(workers),
      LOG_LEVEL: 'warn',
      NODE_ENV: 'production',
      UPSTREAM_BASE_URL: `http://127.0.0.1:${upstream.port}/v1`,
      UPSTREAM_API_KEY: 'upstream',
    },
    startOptions,
  );
  const printed = async (pattern: RegExp) => (await command.until(pattern))[1] ?? '';
  const port = Number(await printed(/^Base URL: http:\/\/127\.0\.0\.1:(\d+)\/v1$/m));
  const created = await run(['keys', 'create', '--database', '--user', 'usr_1'], database);
  const [, key = ''] = /^API key: (\S+)$/m.exec(created.stdout) ?? [];
  const main = command.child.pid ?? 0;
  const others = await processesOf(command, workers);
  return { command, target: { port, key }, main, others };
}

/** What short chats take through the command with so many processes. */
export async function measureRelay(relayed: Relayed): Promise<RelayFigures> {
  const { command, target, main, others } = await startServer(relayed);
  const request = chatRequest(target, question);
  try {
    async function used() {
      const cpus = await Promise.all(others.map(cpuOf));
      const ofOthers = cpus.reduce((sum, cpu) => sum + cpu, 0);
      const ofMain = await cpuOf(main);
      const { user, system } = process.cpuUsage();
      return {
        // alone, the command itself serves
        processCpu: others.length > 0 ? ofOthers : ofMain,
        commandCpu: others.length > 0 ? ofMain : 0,
        primaryCpu: (await relayed.members.usage()).primaryCpu,
        loadCpu: (user + system) / 1e3,
      };
    }
    await saturate(target, request, connections, 2_000);
    const before = await used();
    const { count, seconds, firstBytes } = await saturate(target, request, connections, relayed.seconds * 1_000);
    const after = await used();
    const microseconds = (name: keyof typeof after) => ((after[name] - before[name]) * 1e3) / count;
    return {
      rate: count / seconds,
      processCpu: microseconds('processCpu'),
      commandCpu: microseconds('commandCpu'),
      primaryCpu: microseconds('primaryCpu'),
      loadCpu: microseconds('loadCpu'),
      firstByteP50: percentile(firstBytes, 50),
      firstByteP99: percentile(firstBytes, 99),
    };
  } finally {
    await command.end();
  }
}
