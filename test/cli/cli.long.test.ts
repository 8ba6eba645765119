import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import OpenAI from 'openai';
import { memoryFolder } from '../support/database/memory-folder.ts';
import { listenOn } from '../support/listen.ts';
import { freshUri } from '../support/mongo.ts';
import { isAlive } from '../support/processes/is-alive.ts';
import { until } from '../support/until.ts';
import { CommandProcess, cli, run } from './command.ts';
import { command } from './recorded-terminal.ts';

const secret = 'a-long-enough-secret';
const payment = { payment_id: 'pay_1', amount: 20, currency: 'usd', credits_added: 2000, user_id: 'usr_1' };

async function mongodPid(dataDir: string): Promise<number> {
  return Number(await readFile(join(dataDir, 'mongo', '0', 'mongod.lock'), 'utf8'));
}

describe('the command line', () => {
  let dataDir: string;
  let gateway: CommandProcess;
  let baseUrl: string;
  let key: string;
  let stderrAtStart: string;
  const env = () => ({ DATA_DIR: dataDir, PORT: '0', RETRY_DELAYS: '200ms,200ms' });
  const payments = ['events', 'publish', '--user', 'usr_1', '--type', 'payment.completed'];
  /** Through the API, in this process. */
  const publish = (...args: string[]) =>
    command([...payments, ...args], {
      env: { EXPRESS_MODEL_GATEWAY_BASE_URL: baseUrl, EXPRESS_MODEL_GATEWAY_API_KEY: key },
    });
  /** Beside the gateway, in its database. */
  const publishStored = (...args: string[]) =>
    run([...payments, '--database', ...args], {
      DATA_DIR: dataDir,
    });

  async function start(): Promise<void> {
    gateway = new CommandProcess(['start'], { ...env(), npm_lifecycle_event: 'start' });
    [, baseUrl = ''] = await gateway.until(/^Base URL: (\S+)$/m);
    await gateway.until(/Try a webhook/);
  }

  async function register(port: string): Promise<void> {
    const response = await fetch(`${baseUrl}/webhooks`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ url: `http://127.0.0.1:${port}/hook`, events: ['payment.completed'], secret }),
    });
    expect(response.status).to.equal(201);
  }

  before(async () => {
    dataDir = await mkdtemp(join((await memoryFolder()) ?? tmpdir(), 'cli-test-'));
    await start();
    [, key = ''] = await gateway.until(/^API key: (\S+)$/m);
    stderrAtStart = gateway.stderr;
  });
  after(async () => {
    await gateway.end();
    await rm(dataDir, { recursive: true, force: true });
  });

  it('says where its dashboard is, and serves it there', async () => {
    const [, dashboard = ''] = /^Dashboard: (\S+)/m.exec(gateway.stdout) ?? [];
    const page = await fetch(dashboard);
    expect(page.status).to.equal(200);
    expect(page.headers.get('content-security-policy')).to.match(/^default-src 'none';/);
  });

  it('prints the facts that a script needs, one per line', () => {
    expect(gateway.stdout).to.match(/^Base URL: http:\/\/127\.0\.0\.1:\d+\/v1$/m);
    expect(gateway.stdout).to.match(/^User: usr_1$/m);
    expect(gateway.stdout).to.match(/^API key: emg_\S+$/m);
    expect(gateway.stdout.split('\n')).to.include(`Data: ${dataDir}`);
    expect(gateway.stdout).to.match(/^Webhooks may use: plain http, 127\.0\.0\.0\/8/m);
  });

  it('prints no warning, neither its own nor one of Node', () => {
    expect(stderrAtStart).to.equal('');
    expect(gateway.stdout).to.not.match(/^Warning|^\{/m);
  });

  it('makes secret.key readable by its owner alone', async () => {
    expect((await stat(join(dataDir, 'secret.key'))).mode & 0o777).to.equal(0o600);
  });

  it("serves OpenAI's client, streamed and not", async () => {
    const client = new OpenAI({ baseURL: baseUrl, apiKey: key });
    const question = { model: 'demo-echo', messages: [{ role: 'user' as const, content: 'Hello, gateway' }] };
    const { choices } = await client.chat.completions.create(question);
    expect(choices[0]?.message.content).to.include('Hello, gateway');
    let streamed = '';
    for await (const chunk of await client.chat.completions.create({ ...question, stream: true })) {
      streamed += chunk.choices[0]?.delta.content ?? '';
    }
    expect(streamed).to.equal(choices[0]?.message.content);
  });

  it('delivers a published event to `listen`, which finds its signature valid', async () => {
    const listener = new CommandProcess(['listen', '--port', '0', '--secret', secret]);
    const [, port = ''] = await listener.until(/Listening on http:\/\/127\.0\.0\.1:(\d+)/);
    await register(port);
    const id = (await publish('--data', JSON.stringify(payment))).stdout.trim();
    expect(id).to.match(/^evt_[0-9a-z]{26}$/);
    await listener.until(new RegExp(`payment\\.completed {2}${id} {2}signature valid {2}answered 200\n\\{[^]*\n\\}`));
    expect(listener.stdout).to.include('"payment_id": "pay_1"');
    expect(await listener.end()).to.equal(0);
  });

  it('shows retries of the same event to `listen --status 500`', async () => {
    const listener = new CommandProcess(['listen', '--port', '0', '--secret', secret, '--status', '500']);
    const [, port = ''] = await listener.until(/Listening on \S+:(\d+)/);
    await register(port);
    const id = (await publish('--data', JSON.stringify(payment))).stdout.trim();
    await listener.until(/\(time 3\)/);
    expect(await listener.end()).to.equal(0);
    const attempt = `payment.completed  ${id}  signature valid  answered 500`;
    expect(listener.stdout.match(/payment\.completed {2}.*$/gm)).to.deep.equal([
      attempt,
      `${attempt}  (time 2)`,
      `${attempt}  (time 3)`,
    ]);
  });

  it('refuses a delivery with a wrong signature', async () => {
    const listener = new CommandProcess(['listen', '--port', '0', '--secret', 'another-secret']);
    const [, port = ''] = await listener.until(/Listening on \S+:(\d+)/);
    const response = await fetch(`http://127.0.0.1:${port}/`, {
      method: 'POST',
      headers: { 'x-service-signature': `sha256=${'0'.repeat(64)}` },
      body: '{"id":"evt_1","type":"payment.completed"}',
    });
    expect(response.status).to.equal(401);
    expect(await response.json()).to.have.property('error');
    await listener.until(/SIGNATURE INVALID {2}answered 401/);
    await listener.end();
  });

  it('publishes once under an idempotency key', async () => {
    const once = () => publishStored('--data', JSON.stringify(payment), '--idempotency-key', 'order-1');
    const first = await once();
    expect((await once()).stdout).to.equal(first.stdout);
    const other = await publishStored(
      '--data',
      JSON.stringify({ ...payment, amount: 21 }),
      '--idempotency-key',
      'order-1',
    );
    expect(other.code).to.equal(1);
    expect(other.stderr).to.include('idempotency_conflict');
  });

  it('names the field of an event that is wrong', async () => {
    const wrong = await publishStored('--data', JSON.stringify({ ...payment, amount: 'twenty' }));
    expect(wrong).to.include({ code: 1, stdout: '' });
    expect(wrong.stderr).to.include('data.amount');
  });

  it('creates keys that have their scopes until they are revoked', async () => {
    const created = await run(
      ['keys', 'create', '--database', '--user', 'usr_2', '--name', 'laptop', '--scope', 'webhooks'],
      {
        DATA_DIR: dataDir,
      },
    );
    const [, id = '', made = ''] = /^Key id: (key_\S+)\nAPI key: (\S+)$/.exec(created.stdout) ?? [];
    const status = async () =>
      (await fetch(`${baseUrl}/webhooks`, { headers: { authorization: `Bearer ${made}` } })).status;
    expect(await status()).to.equal(200);
    const listed = await run(['keys', 'list', '--database', '--user', 'usr_2'], { DATA_DIR: dataDir });
    expect(listed.stdout).to.match(new RegExp(`^${id} .*  active  webhooks  any +\\S+ +laptop$`, 'm'));
    const revoke = (user: string) => run(['keys', 'revoke', id, '--database', '--user', user], { DATA_DIR: dataDir });
    expect((await revoke('usr_1')).stderr).to.include('not_found');
    expect(await revoke('usr_2')).to.include({ code: 0, stdout: `Revoked ${id}` });
    // another process may take a revoked key for a second; this one may be too busy to ask in time
    await until(async () => (await status()) !== 200, 10_000);
    expect(await status()).to.equal(401);
    expect((await revoke('usr_2')).code).to.equal(1);
  });

  it('applies the options of the running gateway to commands, not those in their environment', async () => {
    const create = ['keys', 'create', '--database', '--user', 'usr_2', '--budget', 'total:credits=5'];
    const refused = await run(create, { DATA_DIR: dataDir, CREDIT_PRICES: '{"*":{"input":1}}' });
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.include('budgets[0].credits: this gateway has no prices');
  });

  it('answers an unknown path in the error shape, with a request id', async () => {
    for (const path of ['/', '/v2/models', '/%E0%A4%A']) {
      const response = await fetch(new URL(path, baseUrl));
      expect(response.headers.get('x-request-id'), path).to.match(/^req_/);
      expect(response.headers.get('x-content-type-options'), path).to.equal('nosniff');
      expect(response.status, path).to.be.oneOf([400, 404]);
      expect(((await response.json()) as { error: object }).error).to.have.all.keys('message', 'type', 'param', 'code');
    }
  });

  it('refuses to run twice on the same data', async () => {
    const { code, stderr } = await run(['start'], env());
    expect(code).to.equal(1);
    expect(stderr).to.include(dataDir).and.include(`process ${gateway.child.pid}`);
  });

  it('ends at SIGTERM within seconds and leaves no mongod behind', async () => {
    const pid = await mongodPid(dataDir);
    const began = Date.now();
    expect(await gateway.end()).to.equal(0);
    expect(Date.now() - began).to.be.below(12_000);
    expect(isAlive(pid)).to.equal(false);
  });

  it('says that no gateway is running once it has ended', async () => {
    const { code, stderr } = await publishStored('--data', JSON.stringify(payment));
    expect(code).to.equal(1);
    expect(stderr).to.include('no gateway is running').and.include(dataDir);
  });

  it('starts again with its data, and does not print the key again', async () => {
    await start();
    expect(gateway.stdout).not.to.match(/^(User|API key): /m);
    const response = await fetch(`${baseUrl}/webhooks`, { headers: { authorization: `Bearer ${key}` } });
    expect(((await response.json()) as { data: object[] }).data).to.have.length(2);
  });

  it('treats a second Ctrl-C that npm passes on as the same one', async () => {
    const pid = await mongodPid(dataDir);
    gateway.child.kill('SIGINT');
    expect(await gateway.end('SIGINT')).to.equal(0);
    expect(isAlive(pid)).to.equal(false);
  });

  it('exits when the shell that npm ran it in has exited', async () => {
    const command = [process.execPath, cli, 'listen', '--port', '0', '--secret', secret].join(' ');
    const env = { ...process.env, npm_lifecycle_event: 'start' };
    const shell = spawn('sh', ['-c', `${command} & echo "pid $!"; wait`], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let printed = '';
    for await (const text of shell.stdout) {
      printed += text;
      if (printed.includes('Listening')) break;
    }
    const pid = Number(/pid (\d+)/.exec(printed)?.[1]);
    shell.kill('SIGTERM');
    await until(() => !isAlive(pid), 15_000);
    expect(isAlive(pid)).to.equal(false);
  });

  it('says which variable is wrong before it starts anything', async () => {
    const { code, stdout, stderr } = await run(['start'], { ...env(), RETRY_DELAYS: '60' });
    expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
    expect(stderr).to.equal("RETRY_DELAYS: must be at most five durations such as 300ms,1m,2h, or none, not '60'");
  });

  it('says that the port is in use before it starts anything', async () => {
    const squatter = createServer();
    const port = await listenOn(squatter);
    const { code, stdout, stderr } = await run(['start'], { ...env(), PORT: String(port) });
    squatter.close();
    expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
    expect(stderr).to.include(`PORT: ${port} on 127.0.0.1 is in use`);
  });

  it('runs on a MongoDB of the host, and prints no password', async () => {
    const uri = freshUri();
    const { code, stderr } = await run(['start'], { MONGODB_URI: uri, PORT: '0' });
    expect(code).to.equal(1);
    expect(stderr).to.include('SECRET_KEYS').and.include('openssl');

    const withKey = { MONGODB_URI: uri, SECRET_KEYS: `k1:${Buffer.alloc(32).toString('base64')}`, PORT: '0' };
    const other = new CommandProcess(['start'], withKey);
    const [, data = ''] = await other.until(/^Data: (\S+)$/m);
    const { host, password, pathname } = new URL(uri);
    expect(data).to.equal(`mongodb://${host}${pathname}`);
    expect(other.stdout + other.stderr).not.to.include(`:${password}@`);
    await other.until(/Try a webhook/);
    const published = await run(
      ['publish', '--user', 'usr_1', '--type', 'payment.completed', '--data', JSON.stringify(payment)],
      { MONGODB_URI: uri },
    );
    expect(published.stdout).to.match(/^evt_/);
    const create = ['keys', 'create', '--database', '--user', 'usr_1', '--budget', 'total:credits=5', '--json'];
    const priced = await run(create, { MONGODB_URI: uri, CREDIT_PRICES: '{"*":{"input":1}}' });
    expect(JSON.parse(priced.stdout).budgets[0]).to.include({ period: 'total', credits: 5 });
    expect(await other.end()).to.equal(0);
  });

  it('prints help and its version', async () => {
    const help = await run(['--help']);
    for (const name of ['start', 'listen', 'keys', 'events', 'webhooks']) expect(help.stdout).to.include(name);
    expect((await run(['start', '--help'])).stdout).to.include('RETRY_DELAYS');
    expect((await run(['--version'])).stdout).to.match(/^\d+\.\d+\.\d+/);
  });
});
