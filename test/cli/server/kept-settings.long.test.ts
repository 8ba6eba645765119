import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { memoryFolder } from '../../support/database/memory-folder.ts';
import { CommandProcess } from '../command.ts';

describe('The options that a running gateway keeps for commands', () => {
  it('have no password of the proxy of webhooks, and nobody else can read them', async () => {
    const dataDir = await mkdtemp(join((await memoryFolder()) ?? tmpdir(), 'kept-settings-'));
    const deliveries = { proxy: 'http://one:webhooks-password@127.0.0.1:9', disableOnGone: true };
    const gateway = new CommandProcess(['start'], {
      DATA_DIR: dataDir,
      PORT: '0',
      OPTIONS_FILE: JSON.stringify({ deliveries }),
    });
    try {
      await gateway.until(/^Base URL: /m);
      const file = join(dataDir, 'settings.json');
      const kept = await readFile(file, 'utf8');
      expect(kept).to.not.include('webhooks-password');
      expect(JSON.parse(kept).deliveries).to.include({ disableOnGone: true }).and.not.have.property('proxy');
      expect((await stat(file)).mode & 0o777).to.equal(0o600);
    } finally {
      await gateway.end();
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});
