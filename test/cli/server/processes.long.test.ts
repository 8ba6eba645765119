import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect } from 'chai';
import { processesFor, readMachine } from '../../../src/cli/config/machine.ts';
import { newSecretKey } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';
import { isAlive } from '../../support/processes/is-alive.ts';
import { freePorts } from '../../support/servers/free-ports.ts';
import { until } from '../../support/until.ts';
import { CommandProcess, run } from '../command.ts';

describe('WORKERS=2', () => {
  let gateway: CommandProcess;
  let metrics: number;
  let env: Record<string, string>;

  before(async () => {
    metrics = await freePorts(2);
    env = { MONGODB_URI: freshUri(), SECRET_KEYS: newSecretKey(), PORT: '0', WORKERS: '2', METRICS_PORT: `${metrics}` };
    gateway = new CommandProcess(['start'], env);
  });
  after(() => gateway.end('SIGKILL'));

  const pidOf = async (number: number) =>
    Number((await gateway.until(new RegExp(`^Process ${number} serves \\(pid (\\d+)\\)$`, 'm')))[1]);
  const models = async () => {
    const [, baseUrl] = await gateway.until(/^Base URL: (\S+)$/m);
    const [, key] = await gateway.until(/^API key: (\S+)$/m);
    const response = await fetch(`${baseUrl}/models`, { headers: { authorization: `Bearer ${key}` } });
    return response.status;
  };
  const ready = async (port: number) =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ status }) => status,
      () => 0,
    );

  it('starts two processes on one port, with one first key and a metrics port each', async () => {
    const pids = [await pidOf(1), await pidOf(2)];
    expect(new Set([...pids, gateway.child.pid]).size).to.equal(3);
    expect(gateway.stdout.match(/^API key: /gm)).to.have.length(1);
    for (let i = 0; i < 4; i += 1) expect(await models()).to.equal(200);
    for (const port of [metrics, metrics + 1]) {
      await until(async () => (await ready(port)) === 200);
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      expect(text).to.include('gateway_worker_live 1');
    }
  });

  it('restarts a killed process while the other one serves', async () => {
    const killed = await pidOf(2);
    process.kill(killed, 'SIGKILL');
    await gateway.until(/^Process 2 ended \(SIGKILL\); it starts again in 1 s$/m);
    expect(await models()).to.equal(200);
    const [, pid] = await gateway.until(/^Process 2 ended[\s\S]*^Process 2 serves \(pid (\d+)\)$/m);
    expect(Number(pid)).to.not.equal(killed);
    await until(async () => (await ready(metrics + 1)) === 200);
  });

  it('stops both processes at SIGTERM', async () => {
    const pids = [...gateway.stdout.matchAll(/serves \(pid (\d+)\)/g)].map(([, pid]) => Number(pid));
    expect(await gateway.end('SIGTERM')).to.equal(0);
    expect(pids.filter(isAlive)).to.deep.equal([]);
    expect(gateway.stderr).to.not.match(/error/i);
  });

  /** What the command says and does when the port of this variable is taken. */
  async function startOnTaken(variable: string) {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    const { code, stdout, stderr } = await run(['start'], { ...env, [variable]: `${port}` });
    taken.close();
    expect(code).to.equal(1);
    expect(stderr).to.include(`${variable}: ${port} on 127.0.0.1 is in use`);
    expect(stdout).to.equal('');
    return stderr;
  }

  it('exits with an explanation when its first process cannot start', async () => {
    expect(await startOnTaken('METRICS_PORT')).to.include('the first one ended');
  });

  it('starts no process when PORT is in use', async () => {
    expect(await startOnTaken('PORT')).to.not.include('the first one ended');
  });

  it('requires a database that several processes can share', async () => {
    const { code, stderr } = await run(['start'], { WORKERS: '2' });
    expect({ code, says: stderr.includes('WORKERS: needs MONGODB_URI') }).to.deep.equal({ code: 1, says: true });
  });
});

describe('WORKERS=auto', () => {
  it('serves with a process for each core', async () => {
    const { count, reason } = processesFor(readMachine());
    const env = { MONGODB_URI: freshUri(), SECRET_KEYS: newSecretKey(), PORT: '0', WORKERS: 'auto' };
    const gateway = new CommandProcess(['start'], env);
    try {
      const [, said] = await gateway.until(/^Processes: (.*)$/m);
      expect(said).to.equal(`${count} (WORKERS=auto: ${reason})`);
      if (count > 1) await gateway.until(new RegExp(`^Process ${count} serves`, 'm'));
      expect(await gateway.end('SIGTERM')).to.equal(0);
    } finally {
      await gateway.end('SIGKILL');
    }
  });
});
