import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The folder of this checkout. */
export const root = fileURLToPath(new URL('../..', import.meta.url));

/** A folder of consumers with the packed tarball beside them. */
export async function packTarball(): Promise<{ folder: string; tarball: string; files: string[] }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'emg-consumers-'));
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
    cwd: root,
  });
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  await cp(path.join(root, 'test/project-setups'), folder, { recursive: true });
  return { folder, tarball: path.join(folder, packed.filename), files: packed.files.map((file) => file.path) };
}

/**
 * A folder of consumers with the packed tarball installed, and packages of this checkout beside it.
 * @param packages the names of these packages; all of them by default
 */
export async function installTarball(packages?: readonly string[]): Promise<{ folder: string; files: string[] }> {
  const { folder, tarball, files } = await packTarball();
  const modules = path.join(folder, 'node_modules');
  const installed = path.join(modules, 'express-model-gateway');
  await mkdir(installed, { recursive: true });
  await run('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  const all = (await readdir(path.join(root, 'node_modules'))).filter((name) => !name.startsWith('.'));
  for (const name of packages ?? all) {
    await mkdir(path.dirname(path.join(modules, name)), { recursive: true });
    await symlink(path.join(root, 'node_modules', name), path.join(modules, name));
  }
  return { folder, files };
}
