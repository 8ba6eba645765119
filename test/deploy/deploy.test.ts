import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { variables } from '../../src/cli/config/variables.ts';
import type { GatewayHealth } from '../../src/index.ts';
import { createMetrics } from '../../src/operator/metrics.ts';
import { parseDuration } from '../../src/options/kinds.ts';
import { root } from '../package/tarball.ts';
import { listenForOperations } from '../support/operations.ts';
import { composeServices, manifestsOf, read } from './files.ts';

const run = promisify(execFile);

/** How long a process that stops needs beside its delay, as docs/operating.md has it. Milliseconds. */
const toStop = 45_000;
const inPackage = 'node_modules/express-model-gateway/dist/cli/main.js';

const variablesOfNode: ReadonlySet<string> = new Set(['NODE_ENV', 'NODE_DISABLE_COMPILE_CACHE']);

/** What a line of the Dockerfile sets, by name. */
const imageEnv = Object.fromEntries(
  [...read('Dockerfile').matchAll(/^ENV (.*)$/gm)].flatMap(([, line = '']) =>
    line.split(' ').map((pair) => pair.split('=') as [string, string]),
  ),
);

/** What the systemd unit says, by name. */
function unitValues(name: string): string[] {
  return [...read('express-model-gateway.service').matchAll(/^(\w+)=(.*)$/gm)]
    .filter(([, found]) => found === name)
    .map(([, , value = '']) => value);
}

const unitEnv = Object.fromEntries(
  unitValues('Environment').flatMap((line) => line.split(' ').map((pair) => pair.split('=') as [string, string])),
);

describe('The files in deploy/', () => {
  const deployments = manifestsOf('Deployment').map(({ metadata, spec }) => {
    const pod = spec.template?.spec ?? expect.fail(`${metadata.name} has no pods`);
    const [container] = pod.containers;
    return { labels: spec.template?.metadata.labels, pod, container, env: container.env ?? [] };
  });
  const { gateway, migrate, initiate } = composeServices();

  it('set variables that the gateway reads, with valid values', () => {
    const ofPods = deployments.flatMap(({ env }) => env.map(({ name, value }) => [name, value] as const));
    expect(ofPods.map(([, value]) => value)).to.include.members(['api', 'worker']);
    for (const [name, value] of [...ofPods, ...Object.entries(imageEnv), ...Object.entries(unitEnv)]) {
      if (variablesOfNode.has(name)) continue;
      expect(variables).to.have.property(name);
      const { type } = variables[name as keyof typeof variables];
      expect(typeof value === 'string' && type.read(value) !== undefined, `${name}=${value}`).to.equal(true);
    }
    for (const name of Object.keys(gateway.environment)) expect(variables).to.have.property(name);
  });

  it('run the API and workers separately, each with a disruption budget that lets nodes be drained', () => {
    const named = (kind: string) => manifestsOf(kind).map(({ metadata }) => metadata.name);
    expect(named('Deployment')).to.deep.equal(['gateway-api', 'gateway-worker']);
    expect(named('PodDisruptionBudget')).to.deep.equal(['gateway-api', 'gateway-worker']);
    for (const { spec } of manifestsOf('PodDisruptionBudget')) {
      expect(spec).to.have.property('unhealthyPodEvictionPolicy', 'AlwaysAllow');
    }
  });

  it('spread the pods of the API over machines and zones', () => {
    const [api] = deployments;
    const constraints = api?.pod.topologySpreadConstraints ?? [];
    expect(constraints).to.have.length(2);
    for (const { labelSelector } of constraints) expect(labelSelector.matchLabels).to.deep.equal(api?.labels);
  });

  it('build no index at a start, and have a migration before it', () => {
    for (const { env } of deployments) expect(env).to.deep.include({ name: 'INDEXES', value: 'check' });
    const [job] = manifestsOf('Job');
    expect(job?.spec.template?.spec.containers[0].command).to.deep.equal(['node', inPackage, 'migrate']);
    expect(gateway.environment).to.have.property('INDEXES', 'check');
    expect(gateway.depends_on).to.deep.equal({ migrate: { condition: 'service_completed_successfully' } });
    expect(migrate.command).to.deep.equal(['node', inPackage, 'migrate']);
    expect(migrate.depends_on).to.deep.equal({ initiate: { condition: 'service_completed_successfully' } });
    expect(Object.keys(initiate.depends_on)).to.deep.equal(['mongo1', 'mongo2', 'mongo3']);
    expect(unitEnv).to.have.property('INDEXES', 'check');
  });

  it('give a process that stops the time that it needs', () => {
    for (const { pod, container } of deployments) {
      const [, seconds = '0'] = container.lifecycle?.preStop.exec.command ?? [];
      const granted = (pod.terminationGracePeriodSeconds ?? 30) * 1_000;
      expect(granted).to.be.at.least(toStop + Number(seconds) * 1_000);
    }
    const delayOf = ({ SHUTDOWN_DELAY = '0' }: Readonly<Record<string, string>>) => parseDuration(SHUTDOWN_DELAY) ?? 0;
    expect(parseDuration(gateway.stop_grace_period)).to.be.at.least(toStop + delayOf(gateway.environment));
    expect(Number(unitValues('TimeoutStopSec')[0]) * 1_000).to.be.at.least(toStop + delayOf(unitEnv));
  });

  describe('with the listener of METRICS_PORT', () => {
    const checks = { database: 'failed', clock: 'unknown', worker: 'ok' } as unknown as GatewayHealth['checks'];
    const { registry } = createMetrics();
    const operations = () =>
      listenForOperations({ health: async () => ({ ready: false, checks }), metrics: () => registry });

    it('probe paths and ports that it serves', async () => {
      const { url, close } = await operations();
      const statuses = deployments.map(async ({ container }) => {
        const { readinessProbe, startupProbe, livenessProbe, ports } = container;
        expect(ports).to.deep.include({ name: 'metrics', containerPort: Number(imageEnv.METRICS_PORT) });
        const probes = [readinessProbe, startupProbe, livenessProbe].map((probe) => probe?.httpGet);
        for (const probe of probes) expect(probe).to.have.property('port', 'metrics');
        return Promise.all(probes.map(async (probe) => (await fetch(`${url}${probe?.path}`)).status));
      });
      // without a primary, the API keeps its requests and a worker has nothing to do
      expect(await Promise.all(statuses)).to.deep.equal([
        [200, 200, 200],
        [503, 200, 200],
      ]);
      await close();
    });

    it('check the health of the image at its METRICS_HOST and METRICS_PORT', async () => {
      const { port, close } = await operations();
      const [, command = ''] = /^HEALTHCHECK [^\n]*\\\n {2}CMD (\[.*\])$/m.exec(read('Dockerfile')) ?? [];
      const [, ...args] = JSON.parse(command) as string[];
      const check = (env: Record<string, string>) =>
        run(process.execPath, args, { env: { ...imageEnv, METRICS_PORT: `${port}`, ...env } }).then(
          () => 'healthy',
          ({ code }) => code,
        );
      expect(await check({})).to.equal('healthy');
      expect(await check({ METRICS_HOST: '127.0.0.1' })).to.equal('healthy');
      expect(await check({ METRICS_PORT: '1' })).to.equal(1);
      await close();
      expect(await check({})).to.equal(1);
    });
  });

  it('install express and mongoose in the versions of the lock file', async () => {
    const { packages } = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'));
    const locked = ['express', 'mongoose'].map((name) => `${name}@${packages[`node_modules/${name}`].version}`);
    expect(read('express-model-gateway.service')).to.include(
      `--save-exact express-model-gateway ${locked.join(' ')}\n`,
    );
    const [, script = ''] = /\$\(node -p "(.*)"\)$/m.exec(read('Dockerfile')) ?? [];
    const { stdout } = await run(process.execPath, ['-p', script], { cwd: root });
    expect(stdout.trim()).to.equal(locked.join(' '));
  });

  it('have a unit that systemd takes, where there is one', async function () {
    const isThere = await run('systemd-analyze', ['--version']).then(
      () => true,
      () => false,
    );
    if (!isThere) this.skip();
    const folder = await mkdtemp(path.join(tmpdir(), 'emg-unit-'));
    const unit = path.join(folder, 'express-model-gateway.service');
    // it looks for what the unit starts, and Node may be elsewhere on this machine
    await writeFile(unit, read('express-model-gateway.service').replace('/usr/bin/node ', `${process.execPath} `));
    const { stderr } = await run('systemd-analyze', ['verify', '--man=no', unit]);
    await rm(folder, { recursive: true });
    expect(stderr).to.equal('');
  });
});
