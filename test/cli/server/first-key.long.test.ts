import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import { newSecretKey } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';
import { CommandProcess, cli, run } from '../command.ts';

describe('the first start with NODE_ENV=production', () => {
  let env: Record<string, string>;
  let gateway: CommandProcess | undefined;

  beforeEach(() => {
    env = { MONGODB_URI: freshUri(), SECRET_KEYS: newSecretKey(), PORT: '0', NODE_ENV: 'production' };
  });
  afterEach(() => gateway?.end());

  it('writes no key into a log, and says how to make one with every scope', async () => {
    gateway = new CommandProcess(['start'], env);
    const [, baseUrl] = await gateway.until(/^Base URL: (\S+)$/m);
    const [, args = ''] = await gateway.until(/^ {2}npx express-model-gateway (keys create .*)$/m);
    expect(gateway.stdout + gateway.stderr).to.not.match(/emg_|API key: /);

    const { code, stdout } = await run(args.split(' '), env);
    expect(code).to.equal(0);
    const [, key] = /^API key: (emg_\S+)$/m.exec(stdout) ?? [];
    const read = (path: string) => fetch(`${baseUrl}${path}`, { headers: { authorization: `Bearer ${key}` } });
    expect((await read('/admin/accounts')).status).to.equal(200);
    expect(await (await read('/api_keys')).json()).to.have.nested.property('data.length', 1);

    await gateway.end();
    gateway = new CommandProcess(['start'], env);
    await gateway.until(/^A lost key: /m);
    expect(gateway.stdout).to.not.include('has no API key');
  });

  it('prints the key in a terminal', async () => {
    const inTerminal = 'import pty, sys; pty.spawn(sys.argv[1:])';
    const terminal = spawn('python3', ['-c', inTerminal, process.execPath, cli, 'start'], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(terminal, 'exit');
    let printed = '';
    try {
      for await (const text of terminal.stdout.setEncoding('utf8')) {
        printed += text;
        if (/^API key: emg_\S+\r$/m.test(printed)) break;
      }
      expect(printed)
        .to.match(/^Starting\. [^\r]+\r\nBase URL: /)
        .and.to.match(/^API key: emg_\S+\r$/m);
    } finally {
      // the end of its terminal ends the gateway
      terminal.kill();
      await ended;
    }
  });
});
