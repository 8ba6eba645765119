import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import path from 'node:path';
import { expect } from 'chai';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { skipWithout } from '../documentation/runtimes.ts';
import { freshUri } from '../support/mongo.ts';
import { freePorts } from '../support/servers/free-ports.ts';
import { eventually, until } from '../support/until.ts';
import { type Container, type ContainerProcess, containerTools, Image } from './image.ts';

/** What docs/operating.md says that the image adds to its base. Megabytes. */
const documentedSize = 43;

describe('the image of deploy/Dockerfile', function () {
  this.timeout(120_000);
  let image: Image;
  let container: Container;
  let gateway: ContainerProcess | undefined;
  let receiver: TestReceiver;
  let env: Record<string, string>;
  let key: string;
  /** The files of the container before the gateway has run in it. */
  let filesBefore: readonly string[];

  async function start(): Promise<void> {
    const { Cmd } = (await image.config()).Config;
    const started = container.start(Cmd, env);
    gateway = started;
    const isReady = () =>
      fetch(`http://127.0.0.1:${env.METRICS_PORT}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
    const ended = started.exited.then((code) => expect.fail(`it ended with ${code}: ${started.printed()}`));
    await Promise.race([until(isReady, 60_000), ended]);
  }

  async function call(method: string, path: string, body?: object) {
    const response = await fetch(`http://127.0.0.1:${env.PORT}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
    return { status: response.status, body: (await response.json()) as any };
  }

  /** Publishes an event that the webhook hears of. */
  async function publish(): Promise<void> {
    const data = { user_id: 'usr_1', credits_remaining: 5, threshold: 10 };
    expect((await call('POST', '/events', { type: 'credits.low', user_id: 'usr_1', data })).status).to.equal(201);
  }

  before(async function () {
    this.timeout(900_000);
    for (const tool of containerTools) skipWithout(this, tool);
    if (process.getuid?.() !== 0 && !process.env.CI) {
      console.error('      skipped: debootstrap needs root');
      this.skip();
    }
    image = await Image.build();
    container = await image.container();
    // what a runtime writes into any container is there then
    await container.run(['true']);
    filesBefore = await container.files();
    receiver = await startReceiver();
    const port = await freePorts(2);
    env = {
      HOST: '127.0.0.1',
      PORT: `${port}`,
      METRICS_HOST: '127.0.0.1',
      METRICS_PORT: `${port + 1}`,
      MONGODB_URI: freshUri(),
      SECRET_KEYS: `k1:${randomBytes(32).toString('base64')}`,
      ALLOW_HTTP: 'true',
      ALLOW_PRIVATE_NETWORKS: '127.0.0.0/8',
    };
    await start();
  });
  after(async () => {
    await gateway?.end('SIGKILL');
    await receiver?.stop();
    await image?.remove();
  });

  it('has no secret of whoever builds it in a layer, and names no registry', async () => {
    expect(await image.contains('--heap-growing-percent=100')).to.equal(true);
    expect(await image.contains(image.secret)).to.equal(false);
    const installed = readFileSync(path.join(container.root, 'app/node_modules/.package-lock.json'), 'utf8');
    expect(installed)
      .to.include('"node_modules/express"')
      .and.not.match(/"resolved": "https?:/);
  });

  it('is built without the .env beside the sources', async () => {
    const { root } = await image.container('build');
    expect(existsSync(path.join(root, 'build/openapi.yaml'))).to.equal(true);
    expect(existsSync(path.join(root, 'build/.env'))).to.equal(false);
  });

  it('adds as much to its base as the documentation says', async () => {
    const size = await image.addedSize();
    console.log(`      the image adds ${size.toFixed(1)} MB to its base`);
    expect(size).to.be.within(documentedSize - 5, documentedSize + 5);
  });

  it('runs as the user 1000 of the manifests, which is healthy by its HEALTHCHECK', async () => {
    const status = readFileSync(`/proc/${gateway?.pid()}/status`, 'utf8');
    expect(status).to.match(/^Uid:\t1000\t1000\t1000\t1000$/m);
    const { Healthcheck } = await image.config();
    const [, ...command] = Healthcheck.Test;
    await container.run(command, env);
  });

  it('answers a chat of a key that a command in it has made', async () => {
    const command = ['node', 'node_modules/express-model-gateway/dist/cli/main.js', 'keys', 'create', '--database'];
    const options = [
      '--user',
      'usr_1',
      '--json',
      ...['models', 'webhooks', 'events:publish'].flatMap((scope) => ['--scope', scope]),
    ];
    key = JSON.parse(await container.run([...command, ...options], env)).key;
    const messages = [{ role: 'user', content: 'Hello, image' }];
    const { status, body } = await call('POST', '/chat/completions', { model: 'demo-echo', messages });
    expect(status).to.equal(200);
    expect(body.choices[0].message.content).to.include('Hello, image');
  });

  it('delivers an event to a webhook', async () => {
    const webhook = { url: receiver.url, events: ['credits.low'], secret: 'a-long-enough-secret' };
    expect((await call('POST', '/webhooks', webhook)).status).to.equal(201);
    await publish();
    const [received] = await receiver.count(1);
    expect(JSON.parse(`${received?.body}`)).to.have.property('type', 'credits.low');
  });

  it('ends with 0 when it is told to, after the attempt in flight', async () => {
    let attempt: ServerResponse | undefined;
    receiver.answers((res) => {
      attempt = res;
    });
    await publish();
    await receiver.count(2);
    const ended = gateway?.end('SIGTERM');
    // it takes no more calls, and waits
    await until(() =>
      call('GET', '/models').then(
        ({ status }) => status === 503,
        () => true,
      ),
    );
    attempt?.writeHead(200).end();
    expect(await ended).to.equal(0);

    await start();
    const deliveries = await eventually(
      async () => (await call('GET', '/deliveries')).body.data,
      (data) => data.length === 2,
    );
    for (const delivery of deliveries) expect(delivery).to.include({ state: 'delivered', attempts_made: 1 });
    expect(receiver.received).to.have.length(2);
    expect(await gateway?.end('SIGTERM')).to.equal(0);
  });

  it('has written nothing outside of /tmp', async () => {
    expect(await container.files()).to.deep.equal(filesBefore);
  });
});
