import { readFileSync } from 'node:fs';
import { cp, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { blockWith } from '../../documentation/programs.ts';
import { java } from '../../documentation/runtimes.ts';
import { root } from '../../package/tarball.ts';
import { type ClientGenerator, keptFolder, run } from '../generated-client.ts';
import { generateWithOpenapiGenerator } from '../openapi-generator.ts';
import type { adapters } from './adapters.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const document = join(root, 'openapi.yaml');
const tool = (name: string) => join(root, 'node_modules/.bin', name);

const compilerOptions = {
  target: 'es2023',
  lib: ['es2023', 'dom', 'dom.iterable'],
  module: 'esnext',
  moduleResolution: 'bundler',
  allowImportingTsExtensions: true,
  strict: true,
  noEmit: true,
  // what axios declares
  skipLibCheck: true,
  types: ['node'],
  typeRoots: [join(root, 'node_modules/@types')],
};

/** Links the packages of a lock file of this folder, which are installed once, into a folder. */
async function installPackages(name: string, folder: string): Promise<void> {
  const packages = join(here, name);
  const installed = await keptFolder(name, readFileSync(join(packages, 'package-lock.json'), 'utf8'), async (fresh) => {
    await cp(packages, fresh, { recursive: true });
    await run(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: fresh });
  });
  await symlink(join(installed, 'node_modules'), join(folder, 'node_modules'));
}

interface TypescriptGenerator extends Pick<ClientGenerator, 'name'>, Partial<Pick<ClientGenerator, 'runtimes'>> {
  readonly adapter: keyof typeof adapters;
  /** A text of the program in docs/clients.md. */
  readonly example: string;
  /** Generates the folder `client` of a folder; resolves to what the generator has printed. */
  write(folder: string): Promise<string>;
  readonly compilerOptions?: object;
}

function typescriptClient({ name, adapter, example, write, ...options }: TypescriptGenerator): ClientGenerator {
  return {
    name,
    runtimes: options.runtimes ?? [],
    async generate(folder) {
      await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
      const config = {
        compilerOptions: { ...compilerOptions, ...options.compilerOptions },
        include: ['client', '*.ts'],
      };
      await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
      const printed = await write(folder);
      await run([tool('tsc'), '-p', '.'], { cwd: folder });
      return printed;
    },
    program: (folder) => [tool('tsx'), fileURLToPath(new URL('drive.ts', import.meta.url)), adapter, folder],
    async example(folder) {
      await writeFile(join(folder, 'example.ts'), blockWith('docs/clients.md', 'ts', example).code);
      await run([tool('tsc'), '-p', '.'], { cwd: folder });
      return [tool('tsx'), 'example.ts'];
    },
  };
}

async function printedBy(command: readonly [string, ...string[]], folder: string): Promise<string> {
  const { stdout, stderr } = await run(command, { cwd: folder });
  return stdout + stderr;
}

export const heyApiClient = typescriptClient({
  name: '@hey-api/openapi-ts',
  adapter: 'hey-api',
  example: 'client.setConfig',
  compilerOptions: { module: 'nodenext', moduleResolution: 'nodenext', skipLibCheck: false },
  write: (folder) => printedBy([tool('openapi-ts'), '-i', document, '-o', 'client', '--no-log-file'], folder),
});

export const typescriptFetchOptions = [
  ...['-g', 'typescript-fetch', '--global-property=apis,models,supportingFiles'],
  '--additional-properties=withoutRuntimeChecks=true,modelPropertyNaming=original',
];

export const typescriptFetchClient = typescriptClient({
  name: 'openapi-generator for TypeScript',
  runtimes: [java],
  adapter: 'typescript-fetch',
  example: 'new DeliveriesApi',
  write: (folder) => generateWithOpenapiGenerator(folder, typescriptFetchOptions),
});

export const orvalClient = typescriptClient({
  name: 'orval',
  adapter: 'orval',
  example: "from './client/index.ts';\n\naxios.defaults",
  async write(folder) {
    await installPackages('orval', folder);
    return printedBy(
      [join(folder, 'node_modules/.bin/orval'), '--input', document, '--output', 'client/index.ts'],
      folder,
    );
  },
});

export const kubbClient = typescriptClient({
  name: 'kubb',
  adapter: 'kubb',
  example: '@kubb/plugin-client',
  async write(folder) {
    await installPackages('kubb', folder);
    await cp(join(here, 'kubb/kubb.config.js'), join(folder, 'kubb.config.js'));
    await cp(document, join(folder, 'openapi.yaml'));
    const printed = await printedBy([join(folder, 'node_modules/.bin/kubb'), 'generate'], folder);
    // names of files, such as ErrorResponse.ts
    return printed.replaceAll(/^Writing .*$/gm, '');
  },
});
