import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { CommandProcess, cli, run } from '../command.ts';
import { type Commanded, startCommanded } from './gateway-commands.ts';

describe('the command line as a process, beside a gateway', () => {
  let live: Commanded;
  before(async () => {
    live = await startCommanded();
  });
  after(() => live.close());

  it('prints a result on stdout alone and ends with 0', async () => {
    const { code, stdout, stderr } = await run(['webhooks', 'list', '--json'], live.env);
    expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).to.deep.equal({ data: [], has_more: false });
  });

  it('exits with 1 when it is refused and with 2 for a typing mistake, which it names on stderr', async () => {
    const [refused, wrong] = await Promise.all([
      run(['webhooks', 'show', 'wh_nobody'], live.env),
      run(['webhooks', 'shw', 'wh_nobody'], live.env),
    ]);
    expect(refused).to.include({ code: 1, stdout: '' });
    expect(wrong).to.include({ code: 2, stdout: '' });
    expect(wrong.stderr).to.include('Did you mean show?');
  });

  it('uses no colours in a pipe', async () => {
    const { stdout } = await run(['webhooks', 'list', '--help'], { ...live.env, FORCE_COLOR: '1' });
    expect(stdout).to.include('--json').and.not.include('\u001b');
  });

  it('tail ends with 0 at Ctrl-C, which npm may pass on a second time', async () => {
    const env = { ...live.env, npm_lifecycle_event: 'npx' };
    const tail = new CommandProcess(['deliveries', 'tail', '--interval', '200ms'], env);
    const { json: webhook } = await live.run(
      'webhooks',
      'create',
      'http://127.0.0.1:9/',
      '--event',
      'credits.low',
      '--secret',
      'a-long-enough-secret',
      '--json',
    );
    await live.gateway.publish({
      type: 'credits.low',
      userId: 'usr_1',
      data: { user_id: 'usr_1', credits_remaining: 50, threshold: 100 },
    });
    await tail.until(new RegExp(`1/6  connect_refused .*${webhook.id}`));
    tail.child.kill('SIGINT');
    expect(await tail.end('SIGINT')).to.equal(0);
    expect(tail.stderr).to.equal('');
  });

  it('exits quietly when its reader closes the pipe', async () => {
    const child = spawn(process.execPath, [cli, 'deliveries', 'tail', '--interval', '200ms'], {
      env: { PATH: process.env.PATH, ...live.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const said = text(child.stderr);
    const ended = once(child, 'exit');
    await once(child.stdout, 'data');
    child.stdout.destroy();
    await live.gateway.publish({
      type: 'credits.low',
      userId: 'usr_1',
      data: { user_id: 'usr_1', credits_remaining: 10, threshold: 100 },
    });
    expect(await ended).to.deep.equal([0, null]);
    expect(await said).to.equal('');
  });
});
