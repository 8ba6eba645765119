import { inflateRawSync } from 'node:zlib';

const endOfDirectory = Buffer.from('PK\x05\x06', 'latin1');
const directoryEntry = 0x02014b50;
const stored = 0;
const deflated = 8;

/**
 * The content of the first entry whose name ends in `suffix`, from a zip archive held in memory (PKWARE APPNOTE 6.3, 4.3).
 * Reads stored and deflated entries below 4 GiB, which is what a Python wheel has. One entry does not need a library.
 * @throws Error when the archive has no such entry or is damaged
 */
export function readZipEntry(archive: Buffer, suffix: string): Buffer {
  // its record takes 22 bytes at least; a negative offset would count from the end
  const end = archive.length < 22 ? -1 : archive.lastIndexOf(endOfDirectory, archive.length - 22);
  if (end === -1) throw new Error('not a zip archive: it has no central directory');
  const entries = archive.readUInt16LE(end + 10);
  let at = archive.readUInt32LE(end + 16);
  for (let i = 0; i < entries; i += 1) {
    if (archive.readUInt32LE(at) !== directoryEntry) throw new Error('a damaged zip archive');
    const nameLength = archive.readUInt16LE(at + 28);
    const name = archive.toString('utf8', at + 46, at + 46 + nameLength);
    if (name.endsWith(suffix)) return contentOf(archive, at);
    at += 46 + nameLength + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
  throw new Error(`the zip archive has no entry ending in ${suffix}`);
}

function contentOf(archive: Buffer, entry: number): Buffer {
  const method = archive.readUInt16LE(entry + 10);
  const packedSize = archive.readUInt32LE(entry + 20);
  const size = archive.readUInt32LE(entry + 24);
  const header = archive.readUInt32LE(entry + 42);
  // the local header repeats the name and may carry another extra field than the directory does
  const start = header + 30 + archive.readUInt16LE(header + 26) + archive.readUInt16LE(header + 28);
  const packed = archive.subarray(start, start + packedSize);
  if (method !== stored && method !== deflated) throw new Error(`zip compression method ${method} is not supported`);
  const content = method === stored ? packed : inflateRawSync(packed, { maxOutputLength: size });
  if (content.length !== size) throw new Error('a damaged zip archive');
  return content;
}
