import { rm } from 'node:fs/promises';
import { expect } from 'chai';
import { installTarball } from '../package/tarball.ts';
import { freshUri } from '../support/mongo.ts';
import { freePorts } from '../support/servers/free-ports.ts';
import { type CodeBlock, codeBlocks } from './documents.ts';
import { blockWith, output } from './programs.ts';
import { addPrograms, Shell } from './shell.ts';

/** The page that starts a gateway for all others. */
const startPage = 'docs/get-started.md';
const firstStart = blockWith(startPage, 'sh', 'npm ci && npm start\n');
const firstListen = blockWith(startPage, 'sh', ' listen ');
const prepaidStart = blockWith('docs/operating.md', 'sh', 'CREDIT_PRICES');

/** Blocks that stay running: each is started, and what follows it in its document uses it. */
const started: readonly CodeBlock[] = [firstStart, firstListen, prepaidStart];
/** Blocks that are not run, and why. */
const notRun: ReadonlyMap<CodeBlock, string> = new Map([
  [
    blockWith('README.md', 'sh', 'npm ci && npm test'),
    'it starts what docs/get-started.md starts below, and every test',
  ],
  [blockWith(startPage, 'sh', 'docker run'), 'it needs a docker daemon; documents.test.ts checks its syntax'],
]);

/** `test/clients` runs the generators of these documents' commands; client-commands.test.ts compares the two. */
const ofClients = ['docs/clients.md', 'docs/clients-go-java-rust.md'];

/** The database that docs/operating.md names. */
const databaseOfOperating = 'mongodb://db1,db2,db3/gateway';

const runnable = codeBlocks.filter(
  ({ language, document }) => (language === 'sh' || language === 'console') && !ofClients.includes(document),
);
const toRun = runnable.filter((block) => !started.includes(block) && !notRun.has(block));

/** A gateway that a document has started, and the receiver for its webhooks. */
interface Scene {
  readonly port: number;
  readonly receiverPort: number;
  readonly mongoUri: string;
  readonly env: Readonly<Record<string, string>>;
  readonly gateway: Shell;
  receiver?: Shell;
}

describe('the commands in the documentation', function () {
  this.timeout(120_000);
  let folder: string;
  const scenes = new Map<string, Scene>();

  async function startScene(start: CodeBlock): Promise<Scene> {
    const [port, receiverPort] = [await freePorts(1), await freePorts(1)];
    const mongoUri = freshUri();
    const ofGateway = { MONGODB_URI: mongoUri, SECRET_KEYS: `k1:${Buffer.alloc(32, 1).toString('base64')}` };
    const gateway = new Shell(start.code, folder, {
      ...ofGateway,
      PORT: String(port),
      RETRY_DELAYS: '10ms,10ms,10ms',
    });
    const [, key = ''] = await gateway.until(/^API key: (emg_\S+)$/m);
    const env = {
      ...ofGateway,
      EXPRESS_MODEL_GATEWAY_BASE_URL: `http://127.0.0.1:${port}`,
      EXPRESS_MODEL_GATEWAY_API_KEY: key,
      WEBHOOK_SECRET: 'a-long-enough-secret',
    };
    const scene = { port, receiverPort, mongoUri, env, gateway };
    scenes.set(start.document, scene);
    return scene;
  }

  /** Starts a script with the addresses and the key of a scene in the place of those that its document shows. */
  function startShell({ port, receiverPort, mongoUri, env }: Scene, code: string): Shell {
    const script = code
      .replaceAll('emg_…', env.EXPRESS_MODEL_GATEWAY_API_KEY ?? '')
      .replaceAll(databaseOfOperating, `'${mongoUri}'`)
      .replaceAll('127.0.0.1:3000', `127.0.0.1:${port}`)
      .replaceAll('https://gateway.example/llm', `http://127.0.0.1:${port}`)
      .replaceAll('127.0.0.1:9000', `127.0.0.1:${receiverPort}`)
      .replaceAll('--port 9000', `--port ${receiverPort}`);
    return new Shell(script, folder, env);
  }

  /** Runs a script to its end, which must be a success, and returns what it has printed. */
  async function runShell(scene: Scene, code: string): Promise<string> {
    const shell = startShell(scene, code);
    expect(await shell.ended, shell.output).to.equal(0);
    return shell.output;
  }

  /** Starts the receiver, after which `deliveries` to it succeed. */
  async function listen(scene: Scene): Promise<void> {
    scene.receiver = startShell(scene, firstListen.code);
    await scene.receiver.until(/\n/);
  }

  // what is shown of a terminal begins where a receiver is down, as the prepaid gateway's is
  const sceneOf = ({ document, language }: CodeBlock) =>
    (scenes.get(language === 'console' ? prepaidStart.document : document) ?? scenes.get(startPage)) as Scene;

  before(async () => {
    ({ folder } = await installTarball());
    await addPrograms(folder);
    const [first] = await Promise.all([startScene(firstStart), startScene(prepaidStart)]);
    await listen(first);
  });
  after(async () => {
    await Promise.all([...scenes.values()].flatMap(({ gateway, receiver }) => [gateway.end(), receiver?.end()]));
    await rm(folder, { recursive: true, force: true });
  });

  it('start a gateway that prints what docs/get-started.md shows', () => {
    const { code } = blockWith(startPage, 'text', 'Base URL: ');
    const labels = code.match(/^[A-Z][\w ]+:/gm) ?? [];
    expect(labels).to.have.length(5);
    for (const label of labels) expect(`\n${scenes.get(startPage)?.gateway.output}`).to.include(`\n${label}`);
  });

  it('start a demo model that answers the client of docs/get-started.md', async () => {
    const { env } = scenes.get(startPage) as Scene;
    const { EXPRESS_MODEL_GATEWAY_BASE_URL, EXPRESS_MODEL_GATEWAY_API_KEY = '' } = env;
    const printed = await output(folder, blockWith(startPage, 'js', 'demo-echo'), {
      OPENAI_BASE_URL: `${EXPRESS_MODEL_GATEWAY_BASE_URL}/v1`,
      OPENAI_API_KEY: EXPRESS_MODEL_GATEWAY_API_KEY,
    });
    expect(printed).to.match(/Hello, gateway$/);
  });

  for (const block of toRun.filter(({ language }) => language === 'sh')) {
    it(`succeed at ${block.document}:${block.line}`, () => runShell(sceneOf(block), block.code));
  }

  it('deliver the event of docs/get-started.md to its receiver', async () => {
    const [line] = (await scenes.get(startPage)?.receiver?.until(/^.*payment\.completed.*$/m)) ?? [];
    expect(line).to.match(/payment\.completed {2}evt_[0-9a-z]{26} {2}signature valid {2}answered 200/);
  });

  for (const block of toRun.filter(({ language }) => language === 'console')) {
    describe(`at ${block.document}:${block.line}`, () => {
      /** The ids that the document shows, with those that stand for them here. */
      const ids = new Map<string, string>();

      before('a receiver that was down', async () => {
        const scene = sceneOf(block);
        await runShell(scene, blockWith(startPage, 'sh', ' webhooks create ').code);
        await runShell(scene, blockWith(startPage, 'sh', ' events publish ').code);
        let row: RegExpExecArray | null = null;
        // the event is published; its four attempts take as long as they take
        while (!row) {
          row = /(dlv_\w+).* failed .*(wh_\w+)/.exec(
            await runShell(scene, 'npx express-model-gateway deliveries list'),
          );
        }
        for (const [prefix, id = ''] of [
          ['dlv_', row[1]],
          ['wh_', row[2]],
        ]) {
          for (const [shown] of block.code.matchAll(new RegExp(`\\b${prefix}\\w+`, 'g'))) ids.set(shown, id);
        }
        await listen(scene);
      });

      for (const [, command = '', shown = ''] of block.code.matchAll(/^\$ (.+)\n((?:(?!\$ ).*\n)*)/gm)) {
        it(`print the columns and labels that are shown: ${command}`, async () => {
          const printed = await runShell(
            sceneOf(block),
            command.replace(/\b(?:dlv|wh)_\w+/g, (id) => ids.get(id) ?? id),
          );
          // the names of columns, labels and codes; a row begins with values of its own
          const names = shown.match(/^(?:[A-Z]+|[A-Z][a-z]+|[a-z_]+)(?= {2})/gm) ?? [];
          expect(names).to.not.be.empty;
          for (const name of names) expect(printed).to.match(new RegExp(`^${name}\\b`, 'm'));
        });
      }
    });
  }
});
