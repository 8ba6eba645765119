import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, cp, mkdtemp, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { root } from './tarball.ts';

const run = promisify(execFile);

describe('what npm start builds', function () {
  this.timeout(600_000);
  /** A checkout of its own. */
  let folder: string;
  const file = (name: string): string => path.join(folder, name);

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'emg-built-'));
    for (const name of ['src', 'dist', 'package.json', 'tsconfig.json', 'openapi.yaml']) {
      await cp(path.join(root, name), file(name), { recursive: true });
    }
    await symlink(path.join(root, 'node_modules'), file('node_modules'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  /** When the command was built; 0 where a build has failed. Milliseconds since 1970. */
  const builtAt = (): Promise<number> =>
    stat(file('dist/cli/main.js'))
      .then(({ mtimeMs }) => mtimeMs)
      .catch(() => 0);

  /** Does what `npm start` does before it starts. */
  async function prestart(): Promise<'built' | 'not built' | 'failed'> {
    const before = await builtAt();
    const child = spawn('npm', ['run', '--silent', 'prestart'], { cwd: folder, stdio: 'ignore' });
    const [code] = await once(child, 'exit');
    if (code !== 0) return 'failed';
    return (await builtAt()) === before ? 'not built' : 'built';
  }

  it('is what has changed, and nothing where a checkout has changed times alone', async () => {
    // where mocha alone was run, the checkout itself may not be built
    await prestart();
    expect(await prestart()).to.equal('not built');
    await utimes(file('src/cli/main.ts'), new Date(), new Date());
    expect(await prestart()).to.equal('not built');

    const program = await readFile(file('src/cli/program.ts'), 'utf8');
    await writeFile(file('src/cli/program.ts'), program.replace('A stand-alone gateway', 'Another gateway'));
    expect(await prestart()).to.equal('built');
    const { stdout } = await run(process.execPath, [file('dist/cli/main.js'), '--help']);
    expect(stdout).to.include('Another gateway');
  });

  it('is all that a build which failed has left, also when its sources are as they were', async () => {
    expect(await prestart()).to.equal('not built');
    const source = await readFile(file('src/cli/main.ts'));
    await appendFile(file('src/cli/main.ts'), 'import "./missing.ts";\n');
    expect(await prestart()).to.equal('failed');
    await writeFile(file('src/cli/main.ts'), source);
    expect(await prestart()).to.equal('built');
    expect(await prestart()).to.equal('not built');
  });
});
