import type { ChildProcess, ForkOptions } from 'node:child_process';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { forkConfigured } from './configured-process.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const folder = path.join(root, 'node_modules/.cache/test-scripts');

/** What a file finds by its own address it finds in the bundle too. */
const ownAddresses: Plugin = {
  name: 'own addresses',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, async ({ path: file }) => ({
      contents: (await readFile(file, 'utf8')).replaceAll('import.meta.url', JSON.stringify(pathToFileURL(file).href)),
      loader: 'ts',
    }));
  },
};

async function compile(script: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [script],
    write: false,
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
    plugins: [ownAddresses],
  });
  await mkdir(folder, { recursive: true });
  const name = path.relative(root, script).replaceAll(path.sep, '-').replace(/\.ts$/, '.mjs');
  const file = path.join(folder, name);
  // several test processes may compile the same script at once
  const unfinished = `${file}.${process.pid}`;
  await writeFile(unfinished, outputFiles[0]?.contents ?? '');
  await rename(unfinished, file);
  return file;
}

const scripts = new Map<string, Promise<string>>();

/**
 * Compiles a script that tests start as a process, once. Node starts the result in a third of the time that it takes through
 * a loader. @returns the path of the compiled script
 */
export function compiledScript(script: string): Promise<string> {
  const known = scripts.get(script) ?? compile(script);
  scripts.set(script, known);
  return known;
}

/** Starts a script of the tests as a process of its own, with a configuration as `forkConfigured` passes it. */
export async function forkCompiled(script: string, config: unknown, options: ForkOptions = {}): Promise<ChildProcess> {
  // Node's own options are this process's otherwise, its loader among them
  return forkConfigured(await compiledScript(script), config, { execArgv: [], ...options });
}
