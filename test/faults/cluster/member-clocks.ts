import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { defaultCacheFolder } from '../../../src/cli/cache-folder.ts';
import { findMongod, mongodSources } from '../../../src/cli/mongo/binary.ts';

const run = promisify(execFile);
const library = 'libfaketimeMT.so.1';
const downloads = fileURLToPath(new URL('../../../node_modules/.cache/faults/libfaketime', import.meta.url));
/** The clocks of the members of a replica set on this machine, each of which can be set by itself. */
export interface MemberClocks {
  /** Whether they can be set: not where there is no libfaketime. */
  readonly canStep: boolean;
  /** Runs what starts the members, so that their clocks can be set later. */
  around<T>(start: () => Promise<T>): Promise<T>;
  /** Makes the clock of the member at this port wrong by so many seconds. The member notices about a second later. */
  step(port: number, seconds: number): Promise<void>;
  remove(): Promise<void>;
}

async function libraryIn(folder: string): Promise<string | undefined> {
  const files = await readdir(folder, { recursive: true }).catch(() => []);
  const found = files.find((file) => file.endsWith(library));
  return found && join(folder, found);
}

/** The library as it is installed, or from the package of a Debian that has none. */
async function findLibrary(): Promise<string | undefined> {
  for (const machine of await readdir('/usr/lib').catch(() => [])) {
    const found = await libraryIn(join('/usr/lib', machine, 'faketime'));
    if (found) return found;
  }
  const kept = await libraryIn(downloads);
  if (kept) return kept;
  try {
    await mkdir(downloads, { recursive: true });
    await run('apt-get', ['download', 'libfaketime'], { cwd: downloads });
    const [archive = ''] = (await readdir(downloads)).filter((name) => name.endsWith('.deb'));
    await run('dpkg', ['-x', archive, '.'], { cwd: downloads });
  } catch {
    return undefined;
  }
  return libraryIn(downloads);
}

/**
 * A `mongod` that runs the real one with a clock of its own. The monotonic clock stays as it is, as it does where a clock is set;
 * without the last variable, this version of the library has the timed waits of mongod return at once.
 */
function launcher(mongod: string, found: string, folder: string): string {
  return `#!/bin/sh
port=0
previous=
for argument do
  [ "$previous" = --port ] && port=$argument
  previous=$argument
done
[ -e '${folder}'/$port ] || echo '+0' > '${folder}'/$port
exec env LD_PRELOAD='${found}' FAKETIME_TIMESTAMP_FILE='${folder}'/$port FAKETIME_CACHE_DURATION=1 \\
  FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_FORCE_MONOTONIC_FIX=0 '${mongod}' "$@"
`;
}

export async function createMemberClocks(): Promise<MemberClocks> {
  const found = await findLibrary();
  const folder = await mkdtemp(join(tmpdir(), 'member-clocks-'));
  return {
    canStep: found !== undefined,
    async around(start) {
      if (found === undefined) return start();
      const log = (line: string) => console.error(line);
      const mongod = await findMongod(mongodSources(defaultCacheFolder()), log);
      await writeFile(join(folder, 'mongod'), launcher(mongod, found, folder));
      await chmod(join(folder, 'mongod'), 0o755);
      const { PATH = '' } = process.env;
      process.env.PATH = folder + delimiter + PATH;
      try {
        return await start();
      } finally {
        process.env.PATH = PATH;
      }
    },
    step: (port, seconds) => writeFile(join(folder, String(port)), `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
