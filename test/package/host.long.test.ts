import { execFile } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { freshUri } from '../support/mongo.ts';
import { installTarball, root } from './tarball.ts';

const run = promisify(execFile);

describe('a host with the packages that package.json names, and no others', function () {
  this.timeout(120_000);
  let folder: string;

  before(async () => {
    const manifest = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8'));
    ({ folder } = await installTarball(Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it('serves requests, and refuses those that openapi.yaml forbids', async () => {
    const env = { ...process.env, MONGODB_URI: freshUri() };
    const { stdout, stderr } = await run('node', ['host/main.mjs'], { cwd: folder, env });
    expect(stdout.trim().split('\n')).to.deep.equal([
      '201 - -',
      '400 missing_required_parameter events',
      '400 invalid_type events[1]',
      '400 unknown_parameter colour',
      '200 - -',
      '400 invalid_type limit',
    ]);
    expect(stderr).to.equal('');
  });

  it('runs the command express-model-gateway', async () => {
    const command = path.join(folder, 'node_modules/express-model-gateway/dist/cli/main.js');
    const { stdout } = await run('node', [command, '--help'], { cwd: folder });
    expect(stdout).to.match(/^Usage: express-model-gateway/);
  });
});
