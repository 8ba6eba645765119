import { chmod, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { loadSecretKeys } from '../../../src/cli/config/secret-key.ts';
import { keepToOwner } from '../../../src/cli/private-file.ts';

describe('the secret key of a data folder', () => {
  let dataDir: string;
  const modeOf = async () => (await stat(join(dataDir, 'secret.key'))).mode & 0o777;

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'secret-key-test-'));
  });
  afterEach(() => rm(dataDir, { recursive: true }));

  it('is created once, with 32 bytes, readable by its owner alone', async () => {
    const [key, ...others] = await loadSecretKeys(dataDir);
    expect(others).to.deep.equal([]);
    expect(Buffer.from(key?.replace('k1:', '') ?? '', 'base64')).to.have.length(32);
    expect(await modeOf()).to.equal(0o600);
    expect(await loadSecretKeys(dataDir)).to.deep.equal([key]);
  });

  it('is the same for processes that start at the same time', async () => {
    const all = await Promise.all(Array.from({ length: 10 }, () => loadSecretKeys(dataDir)));
    expect(new Set(all.flat()).size).to.equal(1);
    expect(await readdir(dataDir)).to.deep.equal(['secret.key']);
  });

  it('may be several, the first of which seals', async () => {
    await writeFile(join(dataDir, 'secret.key'), 'k2:b\nk1:a\n', { mode: 0o600 });
    expect(await loadSecretKeys(dataDir)).to.deep.equal(['k2:b', 'k1:a']);
  });

  it('becomes readable by its owner alone again when its mode was widened', async () => {
    await loadSecretKeys(dataDir);
    await chmod(join(dataDir, 'secret.key'), 0o644);
    await loadSecretKeys(dataDir);
    expect(await modeOf()).to.equal(0o600);
  });
});

describe('a data folder of another user', () => {
  it('is reported with a remedy, and not as a disk error', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'gateway-folder-'));
    await chmod(folder, 0o755);
    // root may change everything: what it is refused is seen as somebody else
    const isRoot = process.geteuid?.() === 0;
    try {
      if (isRoot) process.seteuid?.(65_534);
      const error = await keepToOwner(isRoot ? folder : '/').catch((reason) => reason);
      expect(error.message).to.match(/belongs to another user.*chown.*DATA_DIR/);
    } finally {
      if (isRoot) process.seteuid?.(0);
      await rm(folder, { recursive: true });
    }
  });
});
