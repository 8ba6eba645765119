import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { compiledScript } from '../../support/processes/compiled-script.ts';

describe('several processes that are stopped', () => {
  it('when the first one begins to serve: no other is started', async () => {
    const script = await compiledScript(fileURLToPath(new URL('./stopped-at-start.ts', import.meta.url)));
    const parent = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
    // a process that was started too late would not end, and neither would its parent
    const timer = setTimeout(() => parent.kill('SIGKILL'), 20_000);
    const [said, [code]] = await Promise.all([text(parent.stdout), once(parent, 'exit')]);
    clearTimeout(timer);
    expect(code).to.equal(0);
    expect(said).to.match(/^Process 1 serves \(pid \d+\)\nall have ended\n$/);
  });
});
