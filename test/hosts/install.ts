import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { installTarball, packTarball, root } from '../package/tarball.ts';
import { shell } from './shell.ts';

/** The packages of a host by the range that it asks for, as in its package.json. */
export type Packages = Readonly<Record<string, string>>;

/** The packages of this checkout, for hosts that wait for no registry. */
export const checkout = 'those of this checkout';

/** Node's binary of this major version for this machine, from the registry: in {@link nodeFolder}. */
export function nodeBinary(major: number): Packages {
  return { [`node${major}`]: `npm:node-${process.platform}-${process.arch}@${major}` };
}

/** Where the binary of {@link nodeBinary} is in a folder that it is installed into. */
export function nodeFolder(installed: string, major: number): string {
  return path.join(installed, 'node_modules', `node${major}`, 'bin');
}

/** Installs packages with npm. @returns their folder, which the caller removes */
export async function installPackages(dependencies: Packages): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'emg-packages-'));
  await writeFile(path.join(folder, 'package.json'), JSON.stringify({ private: true, dependencies }));
  await shell('npm install --no-audit --no-fund --prefer-offline --loglevel=error', { cwd: folder });
  return folder;
}

/** Installs with npm, as hosts do: each set of packages once, with the packed tarball, however many hosts share it. */
export class Installations {
  readonly #folders = new Map<string, Promise<string>>();
  #packed: ReturnType<typeof packTarball> | undefined;

  /** The packed tarball. */
  async tarball(): Promise<string> {
    this.#packed ??= packTarball();
    return (await this.#packed).tarball;
  }

  /** The folder with the node_modules of these packages and the tarball. */
  folderOf(packages: Packages | typeof checkout): Promise<string> {
    const key = JSON.stringify(packages);
    const known = this.#folders.get(key) ?? (packages === checkout ? this.#link() : this.#install(packages));
    this.#folders.set(key, known);
    return known;
  }

  async remove(): Promise<void> {
    const folders: string[] = this.#packed ? [(await this.#packed).folder] : [];
    for (const folder of this.#folders.values()) await folder.then((made) => folders.push(made)).catch(() => {});
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
  }

  async #link(): Promise<string> {
    const { folder } = await installTarball();
    await symlink(path.join(root, 'node_modules/.bin'), path.join(folder, 'node_modules/.bin'));
    return folder;
  }

  async #install(packages: Packages): Promise<string> {
    return installPackages({ 'express-model-gateway': `file:${await this.tarball()}`, ...packages });
  }
}
