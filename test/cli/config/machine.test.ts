import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { readConfiguration } from '../../../src/cli/config/config.ts';
import type { Environment } from '../../../src/cli/config/environment.ts';
import { limitsOfControlGroups, processesFor } from '../../../src/cli/config/machine.ts';
import { describeStart } from '../../../src/cli/server/next-steps.ts';

const gibibyte = 2 ** 30;

describe('What control groups leave a process', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'groups-'));
  });
  afterEach(() => rmSync(root, { recursive: true }));

  function write(files: Record<string, string>): void {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
  }

  const self = 'proc/self/cgroup';
  const v1 = '12:memory:/a\n4:cpu,cpuacct:/a/b\n1:name=systemd:/\n';
  const cases: [string, Record<string, string>, number][] = [
    ['are unlimited without control groups', {}, Number.POSITIVE_INFINITY],
    ['are unlimited where no group says max', { [self]: '0::/\n' }, Number.POSITIVE_INFINITY],
    ['are unlimited with max', { [self]: '0::/\n', 'sys/fs/cgroup/cpu.max': 'max 100000\n' }, Number.POSITIVE_INFINITY],
    ['are those of a container', { [self]: '0::/\n', 'sys/fs/cgroup/cpu.max': '150000 100000\n' }, 1.5],
    [
      'are those of a container that sees its own group at the root alone',
      { [self]: '0::/kubepods/pod1/c1\n', 'sys/fs/cgroup/cpu.max': '400000 100000\n' },
      4,
    ],
    [
      'are the least of a group and those above it',
      {
        [self]: '0::/system.slice/gateway.service\n',
        'sys/fs/cgroup/system.slice/cpu.max': '200000 100000\n',
        'sys/fs/cgroup/system.slice/gateway.service/cpu.max': '300000 100000\n',
      },
      2,
    ],
    [
      'are those of version 1',
      {
        [self]: v1,
        'sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us': '50000\n',
        'sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us': '100000\n',
      },
      0.5,
    ],
    [
      'are unlimited with -1 in version 1',
      {
        [self]: v1,
        'sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us': '-1\n',
        'sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us': '100000\n',
      },
      Number.POSITIVE_INFINITY,
    ],
  ];
  for (const [title, files, cores] of cases) {
    it(`cores: ${title}`, () => {
      write(files);
      expect(limitsOfControlGroups(root).cores).to.equal(cores);
    });
  }

  const memories: [string, Record<string, string>, number][] = [
    ['is unlimited without control groups', {}, Number.POSITIVE_INFINITY],
    ['is unlimited with max', { [self]: '0::/\n', 'sys/fs/cgroup/memory.max': 'max\n' }, Number.POSITIVE_INFINITY],
    ['is that of a container', { [self]: '0::/\n', 'sys/fs/cgroup/memory.max': `${gibibyte}\n` }, gibibyte],
    [
      'is that from which a group is slowed down',
      { [self]: '0::/\n', 'sys/fs/cgroup/memory.max': 'max\n', 'sys/fs/cgroup/memory.high': `${gibibyte / 2}\n` },
      gibibyte / 2,
    ],
    [
      'is that of a container that sees its own group at the root alone',
      { [self]: '0::/kubepods/pod1/c1\n', 'sys/fs/cgroup/memory.max': `${gibibyte}\n` },
      gibibyte,
    ],
    [
      'is the least of a group and those above it',
      {
        [self]: '0::/system.slice/gateway.service\n',
        'sys/fs/cgroup/system.slice/memory.max': `${gibibyte}\n`,
        'sys/fs/cgroup/system.slice/gateway.service/memory.max': `${2 * gibibyte}\n`,
      },
      gibibyte,
    ],
    [
      'is that of version 1',
      { [self]: v1, 'sys/fs/cgroup/memory/a/memory.limit_in_bytes': `${gibibyte / 4}\n` },
      gibibyte / 4,
    ],
  ];
  for (const [title, files, memory] of memories) {
    it(`memory: ${title}`, () => {
      write(files);
      expect(limitsOfControlGroups(root).memory).to.equal(memory);
    });
  }
});

describe('WORKERS=auto', () => {
  it('is one process for each whole core, as far as the memory goes, and never none', () => {
    const counts = [
      { cores: 8, memory: 16 * gibibyte },
      { cores: 3.5, memory: 16 * gibibyte },
      { cores: 0.5, memory: 16 * gibibyte },
      { cores: 8, memory: gibibyte },
      { cores: 2, memory: gibibyte / 8 },
      { cores: 384, memory: 1_024 * gibibyte },
    ].map(processesFor);
    expect(counts).to.deep.equal([
      { count: 8, reason: '8 cores' },
      { count: 3, reason: '3 cores' },
      { count: 1, reason: '1 core' },
      { count: 4, reason: '8 cores, and 1024 MiB of memory for processes that take 256 MiB each' },
      { count: 1, reason: '2 cores, and 128 MiB of memory for processes that take 256 MiB each' },
      { count: 256, reason: '384 cores, and no more than 256 processes' },
    ]);
  });

  const machine = { cores: 4, memory: 16 * gibibyte };
  const database = { MONGODB_URI: 'mongodb://db/gateway', SECRET_KEYS: `k1:${Buffer.alloc(32).toString('base64')}` };
  const production = { ...database, NODE_ENV: 'production' };
  const running = {
    baseUrl: 'http://127.0.0.1:3000/v1',
    dashboardUrl: '',
    data: '',
    demo: true,
    close: async () => {},
  };
  const starts: [Record<string, string>, number, string?][] = [
    [{}, 1],
    [database, 1],
    [production, 1],
    [{ ...production, WORKERS: '2' }, 2],
    [{ NODE_ENV: 'production' }, 1],
    [{ ...database, WORKERS: 'auto' }, 4, 'Processes: 4 (WORKERS=auto: 4 cores)'],
    [
      { ...production, WORKERS: 'auto', METRICS_PORT: '9464' },
      4,
      'Processes: 4 (WORKERS=auto: 4 cores); metrics on ports 9464 to 9467',
    ],
    [{ WORKERS: 'auto' }, 1, 'Processes: 1 (WORKERS=auto: the embedded database serves one process)'],
  ];
  for (const [env, count, line] of starts) {
    const set = Object.keys(env).join(', ') || 'nothing';
    it(`with ${set} set: ${count} ${line === undefined ? '' : 'and says so'}`, () => {
      const configuration = readConfiguration(env, machine);
      expect(configuration.workers).to.equal(count);
      const printed = describeStart(running, configuration, 'emg').filter((text) => text.startsWith('Processes: '));
      expect(printed).to.deep.equal(line === undefined ? [] : [line]);
    });
  }

  it('warns that a limit counts in each process, unless the count is shared', () => {
    const limited = { ...production, WORKERS: 'auto', KEY_REQUESTS_PER_MINUTE: '60' };
    expect(readConfiguration(limited, machine).warnings).to.deep.equal([
      'KEY_REQUESTS_PER_MINUTE counts in each of 4 processes alone; SHARED_LIMITS=true makes it one count of all',
    ]);
    expect(readConfiguration({ ...limited, SHARED_LIMITS: 'true' }, machine).warnings).to.deep.equal([]);
    expect(readConfiguration({ ...limited, WORKERS: '1' }, machine).warnings).to.deep.equal([]);
  });

  for (const value of ['0', '-1', '1.5', '257', 'all', 'AUTO', 'max']) {
    it(`refuses ${value}, and says what to set`, () => {
      const message = `WORKERS: must be auto, or a whole number from 1 to 256, not '${value}'`;
      expect(() => readConfiguration({ ...production, WORKERS: value }, machine)).to.throw(message);
    });
  }

  it('needs a port for the metrics of each process', () => {
    const env = { ...production, WORKERS: 'auto', METRICS_PORT: '65534' };
    expect(() => readConfiguration(env, machine)).to.throw('METRICS_PORT: must leave 4 ports, one for each of WORKERS');
  });
});

const running = {
  baseUrl: 'http://127.0.0.1:3000/v1',
  dashboardUrl: 'http://127.0.0.1:3000/dashboard/',
  data: '.data',
  demo: true,
  close: async () => {},
};

function printed(env: Environment): string {
  return describeStart(running, readConfiguration(env), 'emg').join('\n');
}

describe('What the start prints', () => {
  const rules: [Environment, string][] = [
    [{}, 'plain http, 127.0.0.0/8, ::1/128 (HOST is loopback, NODE_ENV is not production;'],
    [{ HOST: '0.0.0.0' }, 'https only, public addresses only (HOST 0.0.0.0 is not loopback;'],
    [{ NODE_ENV: 'production' }, 'https only, public addresses only (NODE_ENV is production;'],
    [
      { HOST: '0.0.0.0', ALLOW_PRIVATE_NETWORKS: '10.0.0.0/8' },
      'https only, 10.0.0.0/8 (ALLOW_PRIVATE_NETWORKS is set, HOST 0.0.0.0 is not loopback;',
    ],
    [
      { NODE_ENV: 'production', WEBHOOK_PROXY: 'http://us:er@proxy:4750' },
      'https only, the addresses that WEBHOOK_PROXY lets through (NODE_ENV is production;',
    ],
  ];
  for (const [env, line] of rules) {
    it(`says what webhooks may use with ${JSON.stringify(env)}, and why`, () => {
      expect(printed(env)).to.include(`\nWebhooks may use: ${line} see ALLOW_HTTP, ALLOW_PRIVATE_NETWORKS)\n`);
    });
  }

  it('says which base URL OpenAI clients take, and which the commands take, whatever webhooks may reach', () => {
    for (const env of [{}, { HOST: '0.0.0.0' }]) {
      const lines = printed(env).split('\n');
      expect(lines).to.include('Base URL: http://127.0.0.1:3000/v1');
      const exported = lines.filter((line) => line.startsWith('  export '));
      expect(exported).to.deep.equal([
        '  export OPENAI_BASE_URL=http://127.0.0.1:3000/v1 OPENAI_API_KEY=<your API key>',
        '  export EXPRESS_MODEL_GATEWAY_BASE_URL=http://127.0.0.1:3000 EXPRESS_MODEL_GATEWAY_API_KEY=<your API key>',
      ]);
    }
  });

  it('suggests a receiver on this machine only where webhooks may reach one', () => {
    expect(printed({})).to.include('http://127.0.0.1:9000');
    expect(printed({ HOST: '0.0.0.0' })).not.to.include('http://127.0.0.1:9000');
    expect(printed({ HOST: '0.0.0.0', ALLOW_HTTP: 'true', ALLOW_PRIVATE_NETWORKS: '127.0.0.0/8' })).to.include(
      'http://127.0.0.1:9000',
    );
  });
});
