import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const folder = here('../../node_modules/.cache/faults/');

/** What a worker process is started with, as paths of plain JavaScript. */
export interface CompiledWorker {
  readonly worker: string;
  /** What is loaded before it. */
  readonly preloaded: readonly string[];
}

/** Compiles the worker: hundreds are started, and each would take twice the time through a loader. */
export async function compileWorker(): Promise<CompiledWorker> {
  await build({
    entryPoints: [here('worker.ts'), here('skew.ts'), here('names.ts'), here('readings.ts')],
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
  });
  return {
    worker: `${folder}worker.mjs`,
    preloaded: [`${folder}skew.mjs`, `${folder}names.mjs`, `${folder}readings.mjs`],
  };
}
