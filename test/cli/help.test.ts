import { expect } from 'chai';
import { command, everyCommand } from './recorded-terminal.ts';

const paths = everyCommand();

describe('--help', () => {
  for (const path of paths) {
    it(`of ${path.join(' ')} has examples`, async () => {
      const { code, stdout, stderr } = await command([...path, '--help']);
      expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
      expect(stdout).to.match(/^Examples?:\n {2}\$ .*express-model-gateway /m);
    });
  }

  for (const [words, scope] of [
    ['files list', 'models'],
    ['accounts show', 'admin'],
    ['credits top-up', 'admin'],
  ] as const) {
    it(`of ${words} says which key it needs`, async () => {
      const { stdout } = await command([...words.split(' '), '--help']);
      expect(stdout.replace(/\s+/g, ' ')).to.include(`It needs a key with the scope ${scope}, and calls `);
    });
  }

  it('is the same by the word help', async () => {
    const { code, stdout } = await command(['help', 'files']);
    expect({ code, stdout }).to.deep.equal({ code: 0, stdout: (await command(['files', '--help'])).stdout });
    expect(stdout).to.include('upload');
  });

  it('names every command except the renamed one', async () => {
    const { stdout } = await command(['--help']);
    for (const [word = ''] of paths) {
      if (word !== 'publish') expect(stdout).to.match(new RegExp(`^ {2}${word} `, 'm'));
    }
    expect(stdout).to.not.match(/^ {2}publish/m);
  });

  it('shows defaults as they are typed', async () => {
    const tail = await command(['deliveries', 'tail', '--help']);
    expect(tail.stdout).to.include('(default: 2s)');
    const create = await command(['keys', 'create', '--help']);
    expect(create.stdout.replace(/\s+/g, ' '))
      .to.include('(default: models, webhooks, keys)')
      .and.include('(default: no name)');
  });

  it('is shown, with exit code 2, where a command is left out', async () => {
    const { code, stdout, stderr } = await command(['webhooks']);
    expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
    expect(stderr).to.include('rotate-secret');
  });
});
