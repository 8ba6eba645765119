import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { keptFolder, run } from '../clients/generated-client.ts';
import type { Runtime } from '../documentation/runtimes.ts';
import { root } from '../package/tarball.ts';
import { read } from './files.ts';

/** What builds and runs an image where no container registry is in reach. */
export const containerTools: readonly Runtime[] = ['debootstrap', 'podman', 'buildah'].map((command) => ({
  command,
  version: ['--version'],
}));

const [, baseName = '', nodeMajor = '', release = ''] =
  /^FROM (node:(\d+)-(\w+)-slim)$/m.exec(read('Dockerfile')) ?? [];
const baseImage = `docker.io/library/${baseName}`;
/** The npm that this Node comes with. */
const npmMajor = 11;

const print = async (cwd: string, ...command: [string, ...string[]]) => (await run(command, { cwd })).stdout.trim();

/** Where this machine gets the packages of the release from, if it is a Debian of the release itself. */
async function debianMirror(): Promise<string[]> {
  const targets = await print(root, 'apt-get', 'indextargets', '--format', '$(SITE) $(RELEASE)').catch(() => '');
  const found = targets.split('\n').find((line) => line.endsWith(` ${release}`));
  return found ? [found.slice(0, found.indexOf(' '))] : [];
}

/** Unpacks a package of npm's registry, or a part of it. */
async function unpack(name: string, folder: string, part = ''): Promise<void> {
  const tarball = await print(folder, 'npm', 'pack', '--silent', name);
  await run(['tar', '-xzf', tarball, '--no-same-owner', '--strip-components=1', `package/${part}`], { cwd: folder });
  await rm(path.join(folder, tarball));
}

/** Makes what the Dockerfile builds on, from Debian's packages and Node's in npm's registry: `base.tar`. */
async function makeBase(folder: string): Promise<void> {
  const tree = path.join(folder, 'tree');
  const mirror = await debianMirror();
  await run(['debootstrap', '--variant=minbase', release, tree, ...mirror], { cwd: folder });
  const npm = path.join(tree, 'usr/local/lib/node_modules/npm');
  const bin = path.join(tree, 'usr/local/bin');
  await mkdir(npm, { recursive: true });
  await unpack(`node-linux-${process.arch}@${nodeMajor}`, path.join(tree, 'usr/local'), 'bin/node');
  await unpack(`npm@${npmMajor}`, npm);
  for (const name of ['npm', 'npx']) {
    const program = path.join(npm, `bin/${name}-cli.js`);
    await chmod(program, 0o755);
    await symlink(path.relative(bin, program), path.join(bin, name));
  }
  await run(['chroot', tree, 'useradd', '--uid', '1000', '--user-group', '--create-home', 'node'], { cwd: folder });
  await run(['chroot', tree, 'apt-get', 'clean'], { cwd: folder });
  await run(['tar', '--numeric-owner', '-C', tree, '-cf', 'base.tar', '.'], { cwd: folder });
  await rm(tree, { recursive: true });
}

/**
 * What a step of the build needs to reach the registry of this machine, without being told its name: mounted, so that it is in no layer.
 * @param secret a token for another registry, and lock files that name registries, which must not be in the image
 */
async function npmMounts(folder: string, secret: string): Promise<string[]> {
  const config = (name: string) => print(root, 'npm', 'config', 'get', name);
  const own = await readFile(await config('userconfig'), 'utf8').catch(() => '');
  const authorities = await config('cafile');
  const hasAuthorities = path.isAbsolute(authorities);
  const added = [`registry=${await config('registry')}`, `//registry.invalid/:_authToken=${secret}`];
  if (hasAuthorities) added.push(`cafile=${authorities}`);
  const file = path.join(folder, 'npmrc');
  await writeFile(file, [own, ...added, 'omit-lockfile-registry-resolved=false', ''].join('\n'));
  const mounts = [`${file}:/root/.npmrc:ro`, ...(hasAuthorities ? [`${authorities}:${authorities}:ro`] : [])];
  return mounts.flatMap((mount) => ['--volume', mount]);
}

/** What the image says of itself. */
interface ImageConfig {
  readonly Config: { readonly Cmd: readonly string[] };
  readonly Healthcheck: { readonly Test: readonly string[] };
}

/** The image of deploy/Dockerfile, in a storage of its own. */
export class Image {
  /** Stands for every secret of whoever builds: in the environment, in `.env` and in npm's configuration. */
  readonly secret = `secret-${randomBytes(12).toString('hex')}`;
  readonly #folder: string;
  readonly #name = 'localhost/express-model-gateway:test';

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Builds it from the files of this checkout. */
  static async build(): Promise<Image> {
    const base = await keptFolder('base', `${baseName} npm@${npmMajor} ${process.arch}`, makeBase);
    const image = new Image(await mkdtemp(path.join(tmpdir(), 'emg-image-')));
    try {
      await image.#run('podman', 'import', path.join(base, 'base.tar'), baseImage);
      await image.#buildStage(image.#name, await image.#context());
    } catch (error) {
      await image.remove();
      throw error;
    }
    return image;
  }

  async config(): Promise<ImageConfig> {
    return JSON.parse(await this.#run('podman', 'image', 'inspect', this.#name))[0];
  }

  /** What it adds to its base. Megabytes. */
  async addedSize(): Promise<number> {
    const sizes = await this.#run('podman', 'image', 'inspect', '--format', '{{.Size}}', this.#name, baseImage);
    const [whole = 0, base = 0] = sizes.split('\n').map(Number);
    return (whole - base) / 1e6;
  }

  /** Whether a text stands anywhere in it: in a file of a layer, or in what it says of itself. */
  async contains(text: string): Promise<boolean> {
    const archive = path.join(this.#folder, 'image.tar');
    await this.#run('podman', 'save', '--format', 'docker-archive', '--output', archive, this.#name);
    const found = await run(['grep', '--text', '--count', '--fixed-strings', `--regexp=${text}`, archive], {
      cwd: root,
    }).then(
      () => true,
      ({ message }) => (/: 1\n0\n$/.test(message) ? false : expect.fail(message)),
    );
    await rm(archive);
    return found;
  }

  /** A container of it, or of another stage of the Dockerfile. */
  async container(stage?: string): Promise<Container> {
    const name = stage ? `localhost/${stage}` : this.#name;
    if (stage) await this.#buildStage(name, path.join(this.#folder, 'context'), '--target', stage);
    const id = await this.#run('buildah', 'from', '--pull-never', name);
    return new Container(id, await this.#run('buildah', 'mount', id), this.#storage);
  }

  async remove(): Promise<void> {
    await this.#run('buildah', 'rm', '--all');
    // the storage is mounted on itself
    await run(['umount', path.join(this.#folder, 'storage/overlay')], { cwd: root }).catch(() => {});
    await rm(this.#folder, { recursive: true });
  }

  get #storage(): readonly string[] {
    return ['--root', path.join(this.#folder, 'storage'), '--runroot', path.join(this.#folder, 'run')];
  }

  async #run(tool: 'podman' | 'buildah', ...args: string[]): Promise<string> {
    const env = { SECRET_KEYS: this.secret, MONGODB_URI: this.secret, UPSTREAM_API_KEY: this.secret };
    return (await run([tool, ...this.#storage, ...args], { cwd: this.#folder, env })).stdout.trim();
  }

  /** The files of a clone, and an `.env`. */
  async #context(): Promise<string> {
    const context = path.join(this.#folder, 'context');
    await mkdir(context);
    const { stdout } = await run(['git', 'ls-files', '--cached', '--others', '--exclude-standard'], { cwd: root });
    await run(['tar', '-cf', `${context}.tar`, '--files-from=-'], { cwd: root, input: stdout });
    await run(['tar', '-xf', `${context}.tar`], { cwd: context });
    await writeFile(path.join(context, '.env'), `SECRET_KEYS=${this.secret}\n`);
    return context;
  }

  async #buildStage(name: string, context: string, ...options: string[]): Promise<void> {
    const mounts = await npmMounts(this.#folder, this.secret);
    // docker's format has the HEALTHCHECK; the base is in this storage alone
    const how = ['--isolation=chroot', '--network=host', '--format=docker', '--pull=never', ...mounts, ...options];
    await this.#run(
      'podman',
      'build',
      ...how,
      '--file',
      path.join(context, 'deploy/Dockerfile'),
      '--tag',
      name,
      context,
    );
  }
}

/** The process that a container is there for. */
export interface ContainerProcess {
  /** What it has printed so far. */
  readonly printed: () => string;
  /** Its number on this machine. */
  readonly pid: () => number;
  /** Resolves to its exit code. */
  readonly exited: Promise<number | null>;
  /** Signals the process itself, as a container runtime does, if it still runs. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** A container of an image, on this machine's network. */
export class Container {
  readonly #id: string;
  readonly #storage: readonly string[];
  /** The folder that its files are in. */
  readonly root: string;

  constructor(id: string, folder: string, storage: readonly string[]) {
    this.#id = id;
    this.root = folder;
    this.#storage = storage;
  }

  /** Runs a command in it to its end; resolves to what that prints. */
  async run(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> {
    return (await run(['buildah', ...this.#args(command, env)], { cwd: root })).stdout.trim();
  }

  start(command: readonly string[], env: Readonly<Record<string, string>>): ContainerProcess {
    const child = spawn('buildah', this.#args(command, env), { stdio: ['ignore', 'pipe', 'pipe'] });
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
      });
    }
    const exited = once(child, 'close').then(([code]) => code);
    const pid = () => innermost(child.pid as number);
    return {
      printed: () => printed,
      pid,
      exited,
      end(signal) {
        if (child.exitCode === null) process.kill(pid(), signal);
        return exited;
      },
    };
  }

  /** Every file outside of /tmp, with its size, owner, mode and the time of its last change, a line each. */
  async files(): Promise<readonly string[]> {
    const file = ['-printf', '%p %y %m %U %s %T@\n'];
    // what a folder holds are lines of their own
    const folder = ['-type', 'd', '-printf', '%p %y %m %U\n'];
    const { stdout } = await run(['find', '.', '-path', './tmp', '-prune', '-o', ...folder, '-o', ...file], {
      cwd: this.root,
    });
    return stdout.split('\n').sort();
  }

  #args(command: readonly string[], env: Readonly<Record<string, string>>): string[] {
    const variables = Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
    return [...this.#storage, 'run', '--isolation=chroot', ...variables, this.#id, '--', ...command];
  }
}

/** The process that nothing but wrappers lead to. */
function innermost(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const children = threads.flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
  );
  return children[0] ? innermost(Number(children[0])) : pid;
}
