import type { RelayFigures } from '../../scale/measured.ts';
import { type Command, startCommand } from '../deliveries/command.ts';
import type { Setup } from '../deliveries/setup.ts';
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

function startServer({ setup, upstream, workers }: Relayed): Promise<Command> {
  return startCommand(setup, {
    variables: {
      WORKERS: String(workers),
      LOG_LEVEL: 'warn',
      UPSTREAM_BASE_URL: `http://127.0.0.1:${upstream.port}/v1`,
      UPSTREAM_API_KEY: 'upstream',
    },
  });
}

/** What short chats take through the command with so many processes. */
export async function measureRelay(relayed: Relayed): Promise<RelayFigures> {
  const command = await startServer(relayed);
  const { target } = command;
  const [main = 0, ...others] = command.pids;
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
