import { execFile } from 'node:child_process';
import { access, constants, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { defaultCacheFolder } from '../../../src/cli/cache-folder.ts';

/** How to start a Chromium: what `chromium.launch` of playwright-core takes. */
export interface ChromiumLaunch {
  readonly executablePath: string;
  readonly env: NodeJS.ProcessEnv;
  readonly args: string[];
}

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome'];
const places = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

/** An npm package that carries a headless Chromium for x64 Linux, with the libraries that a bare machine lacks. */
const carrier = '@sparticuz/chromium';
const carrierVersion = '143.0.4';

const args = ['--no-sandbox', '--disable-gpu'];
const run = promisify(execFile);

async function firstExecutable(candidates: readonly string[]): Promise<string | undefined> {
  for (const candidate of candidates) {
    const usable = await access(candidate, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (usable) return candidate;
  }
  return undefined;
}

function installed(): Promise<string | undefined> {
  const folders = (process.env.PATH ?? '').split(path.delimiter).filter(Boolean);
  return firstExecutable([...names.flatMap((name) => folders.map((folder) => path.join(folder, name))), ...places]);
}

/** Installs the carrier beside the other things that tests fetch, once, and unpacks what it carries. */
async function carried(): Promise<ChromiumLaunch> {
  const folder = path.join(defaultCacheFolder(), `chromium-${carrierVersion}`);
  const unpacked = path.join(folder, 'chromium');
  const libraries = path.join(folder, 'al2023', 'lib');
  const launch = { executablePath: unpacked, args, env: { ...process.env, LD_LIBRARY_PATH: libraries } };
  if (await firstExecutable([unpacked])) return launch;

  await mkdir(folder, { recursive: true });
  await run('npm', [
    'install',
    '--prefix',
    folder,
    '--no-save',
    '--no-audit',
    '--no-fund',
    `${carrier}@${carrierVersion}`,
  ]);
  const unpack = `import(${JSON.stringify(`${folder}/node_modules/${carrier}/build/esm/index.js`)}).then(({ default: chromium }) => chromium.executablePath())`;
  // the package unpacks below TMPDIR, and its libraries only where it takes the machine for the one it was made for
  await run(process.execPath, ['-e', unpack], {
    env: { ...process.env, TMPDIR: folder, AWS_LAMBDA_JS_RUNTIME: 'nodejs22.x' },
  });
  return launch;
}

/**
 * Finds a Chromium: `CHROMIUM_PATH`, then one that is installed, then the one that an npm package carries.
 * @throws Error that says how to get one
 */
export async function findChromium(): Promise<ChromiumLaunch> {
  const executablePath = process.env.CHROMIUM_PATH ?? (await installed());
  if (executablePath) return { executablePath, env: process.env, args };
  try {
    return await carried();
  } catch (error) {
    throw new Error('no Chromium was found: install one (`apt-get install chromium`) or name it in CHROMIUM_PATH', {
      cause: error,
    });
  }
}
